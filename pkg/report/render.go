package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/tisnap/tisnap/pkg/failure"
)

// TableOptions selects what a rendered report shows.
type TableOptions struct {
	// Compare adds the published figures next to the run's own.
	Compare bool
	// Details adds the steps of each phase, their parts, and the parts of the hold.
	Details bool
	// Color marks headings and failures with ANSI colours; Table only. NO_COLOR and TERM=dumb override it.
	Color bool
	// NoError leaves out the run's error, which follows on stderr; Table only.
	NoError bool
}

// page is a laid-out report, not yet text or Markdown.
type page struct {
	title  string
	facts  []string
	tables []table.Writer
	notes  []string
	fault  string
}

// Table writes the report as text of at most 100 columns, except error messages and checks, which are not truncated. It
// returns w's error.
func (r *Report) Table(w io.Writer, o TableOptions) error {
	p := r.printable(failure.Line).page(o)
	paint := func(c text.Color, s string) string {
		if !o.Color {
			return s
		}
		return c.Sprint(s)
	}
	var b strings.Builder
	b.WriteString(paint(text.Bold, p.title) + "\n")
	for _, f := range p.facts {
		b.WriteString(f + "\n")
	}
	for _, t := range p.tables {
		t.SetStyle(textStyle(o.Color))
		b.WriteString("\n" + plain(t.Render()) + "\n")
	}
	if len(p.notes) > 0 {
		b.WriteString("\n" + strings.Join(p.notes, "\n") + "\n")
	}
	if p.fault != "" && !o.NoError {
		b.WriteString("\n" + paint(text.FgRed, "error: "+p.fault) + "\n")
	}
	return r.write(w, b.String())
}

// Markdown writes the report as a GitHub-flavoured Markdown section with a second-level heading. It returns
// w's error.
func (r *Report) Markdown(w io.Writer, o TableOptions) error {
	p := r.printable(Escape).page(o)
	var b strings.Builder
	b.WriteString("## " + p.title + "\n")
	if len(p.facts) > 0 {
		b.WriteString("\n" + strings.Join(p.facts, "  \n") + "\n")
	}
	for _, t := range p.tables {
		t.SetStyle(textStyle(false))
		b.WriteString("\n" + t.RenderMarkdown() + "\n")
	}
	if len(p.notes) > 0 {
		b.WriteString("\n- " + strings.Join(p.notes, "\n- ") + "\n")
	}
	if p.fault != "" {
		b.WriteString("\n**Error:** `" + strings.ReplaceAll(p.fault, "`", "'") + "`\n")
	}
	return r.write(w, b.String())
}

func (r *Report) write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return failure.Wrap(err, failure.Unknown, "write report", string(r.Run))
}

func (r *Report) page(o TableOptions) page {
	p := page{title: r.Title(), facts: r.facts(), fault: r.Error}
	if r.Operation == Resolve {
		p.tables = []table.Writer{r.phaseTable(o, restorePhases()[3:])}
	} else if r.Operation == Restore {
		p.tables = []table.Writer{r.restoreTable(o)}
		if o.Details {
			p.tables = append(p.tables, r.phaseTable(o, restorePhases()))
		} else if line := r.others(); line != "" {
			p.notes = append(p.notes, line)
		}
	} else {
		p.tables = []table.Writer{r.phaseTable(o, PublishedPhases(r.Operation))}
		if line := r.compareBackup(); o.Compare && line != "" {
			p.notes = append(p.notes, line)
		}
	}
	p.notes = append(p.notes, r.processLines()...)
	if r.Hold != nil {
		for _, a := range r.Hold.Failed {
			p.notes = append(p.notes, fmt.Sprintf("attempt %d failed at %s in %s: %s",
				a.Number, a.At.UTC().Format("15:04:05Z"), a.Step, strings.ReplaceAll(a.Error, "\n", "; ")))
		}
	}
	if line := r.expectedLine(); line != "" {
		p.notes = append(p.notes, line)
		if o.Compare || o.Details {
			p.tables = append(p.tables, r.expectedTable())
		}
	}
	for _, w := range r.Warnings {
		p.notes = append(p.notes, "warning: "+w)
	}
	for _, c := range r.Checks {
		p.notes = append(p.notes, "checked: "+c)
	}
	return p
}

// Title is the run and its outcome: "backup nightly-1 of tidb/prod: done".
func (r *Report) Title() string {
	b, of := Name(string(r.Operation)), Name(r.Cluster.String())
	if r.Operation == Resolve {
		b += fmt.Sprintf(" of %s to %s", of, orAbsent(string(r.Backup)))
	} else if r.Operation == Restore {
		b += fmt.Sprintf(" of %s to %s", orAbsent(string(r.Backup)), of)
	} else {
		b += fmt.Sprintf(" %s of %s", orAbsent(string(r.Backup)), of)
	}
	return b + ": " + orAbsent(string(r.Outcome))
}

func (r *Report) facts() []string {
	line := count(r.TiKVs, "TiKV", "TiKVs") + ", " + count(r.Volumes, "volume", "volumes")
	if r.DataBytes > 0 {
		line += ", " + Bytes(r.DataBytes) + " of data"
	}
	if r.DataPerVolumeBytes > 0 {
		line += ", at most " + Bytes(r.DataPerVolumeBytes) + " per volume"
	}
	facts := []string{line}
	if r.VolumeSettings != nil {
		facts = append(facts, "volumes: "+r.VolumeSettings.Text())
	}
	if r.Changed != nil {
		facts = append(facts, "written to: "+r.Changed.Text())
	}
	for _, f := range slices.Concat(r.Regions.Facts(), r.EarlyApply.Facts(), r.Archived.Facts(), r.Copied.Facts(),
		r.Drilled.Facts()) {
		facts = append(facts, f[0]+": "+f[1])
	}
	line = "run " + orAbsent(string(r.Run))
	if !r.Started.IsZero() {
		line += ", started " + r.Started.UTC().Format(time.RFC3339)
	}
	if !r.Finished.IsZero() {
		line += ", finished " + r.Finished.UTC().Format(time.RFC3339)
	}
	return append(facts, line)
}

// others lists the phases that have no published column, so that the total adds up.
func (r *Report) others() string {
	known := map[string]bool{}
	for _, name := range restorePhases() {
		known[name] = true
	}
	var parts []string
	for _, p := range r.Phases {
		if !known[p.Name] {
			parts = append(parts, p.Name+" "+Duration(p.Seconds))
		}
	}
	if between := r.Between(); between > 0 {
		parts = append(parts, Outside+" "+Duration(between))
	}
	if len(parts) == 0 {
		return ""
	}
	return "also in the total: " + strings.Join(parts, ", ")
}

func (r *Report) compareBackup() string {
	if r.DataPerVolumeBytes <= 0 {
		return ""
	}
	near := nearestBackup(r.DataPerVolumeBytes)
	return fmt.Sprintf("published: about %g min for %s per volume (%s)", near.minutes, Bytes(near.dataGB*gigabyte),
		near.settings)
}

// Outside is the row for time outside the phases: undoing, and the time between two processes of a run.
const Outside = "outside the phases"

// Between is the time outside the phases: undoing, and the time between two processes of a run. It is 0 if it is below
// a hundredth of the total.
func (r *Report) Between() float64 {
	rest := r.TotalSeconds
	for i := range r.Phases {
		rest -= r.Phases[i].Own()
	}
	if r.share(rest) < 0.01 {
		return 0
	}
	return rest
}

func textStyle(color bool) table.Style {
	s := table.StyleLight
	s.Options = table.Options{SeparateFooter: true, SeparateHeader: true}
	s.Format = table.FormatOptions{}
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	if color {
		s.Color.Header, s.Color.Footer = text.Colors{text.Bold}, text.Colors{text.Bold}
		s.Options.DoNotColorBordersAndSeparators = true
	}
	return s
}

// plain removes what only Markdown needs: trailing and no-break spaces.
func plain(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, noBreakSpace, " "), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
