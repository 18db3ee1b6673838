package exporter

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// Bounds of one page.
const (
	maxRows     = 100
	maxCards    = 24
	maxQuestion = 200
)

// listPage has a card per cluster, then the backups, the newest first; ?q= searches names, clusters, runs and states.
func (x *Exporter) listPage(r *http.Request, s *fleet.State) (content, error) {
	question := failure.Line(r.URL.Query().Get("q"))
	question = question[:min(len(question), maxQuestion)]
	number, _ := strconv.Atoi(r.URL.Query().Get("page")) // anything else is the first
	found := matching(s.Backups, strings.ToLower(strings.TrimSpace(question)))
	pages := max((len(found)+maxRows-1)/maxRows, 1)
	number = min(max(number, 1), pages)
	nodes := []g.Node{
		h.Div(h.Class("bar-top"), h.H1(g.Text("Backups")), search(question)),
	}
	if question == "" && number == 1 {
		nodes = append(nodes, x.cards(s))
	}
	nodes = append(nodes, h.H2(g.Attr("class", "title"), g.Text(counted(len(found), question))))
	if len(found) == 0 && question != "" {
		nodes = append(nodes, h.P(g.Textf("No backup has %q in its name, cluster, run or state. ", question),
			link("/", "Show all")))
	}
	if len(found) > 0 {
		nodes = append(nodes, table(s, found[(number-1)*maxRows:min(number*maxRows, len(found))]))
	}
	nodes = append(nodes, pager(question, number, pages), restores(s, question), failures(s, question))
	return content{title: "Backups", nodes: nodes}, nil
}

func counted(n int, question string) string {
	switch {
	case n == 0 && question == "":
		return "No backups yet"
	case n == 0:
		return "No backup found"
	case n == 1:
		return "1 backup"
	}
	return strconv.Itoa(n) + " backups"
}

func search(question string) g.Node {
	return h.Form(h.Class("search"), h.Role("search"), h.Method("get"), h.Action("/"),
		h.Div(h.Label(h.For("q"), g.Text("Search backups, clusters, runs, states")),
			h.Input(h.Type("search"), h.ID("q"), h.Name("q"), h.Value(question),
				h.MaxLength(strconv.Itoa(maxQuestion)))),
		h.Button(h.Type("submit"), g.Text("Search")))
}

// matching returns the backups whose names contain the words; all of them without words.
func matching(backups []catalog.Entry, question string) []catalog.Entry {
	if question == "" {
		return backups
	}
	var found []catalog.Entry
	for _, e := range backups {
		if strings.Contains(strings.ToLower(fmt.Sprintf("%s %s %s %s %s", e.ID, e.Cluster, e.Run, e.State, e.Version)),
			question) {
			found = append(found, e)
		}
	}
	return found
}

// cards are the clusters with their newest backup, the current run, and how long the last runs took.
func (x *Exporter) cards(s *fleet.State) g.Node {
	clusters, more := s.Ordered(maxCards)
	if len(clusters) == 0 {
		return nil
	}
	cards := g.Group{}
	for _, c := range clusters {
		if c.Name == (cluster.Name{}) {
			continue // unreadable backups: they are in the list
		}
		done := c.Done()
		cards = append(cards,
			h.Li(h.H3(g.Text(short(c.Name.String())), g.Text(" "), clusterBadge(s, c)), newest(s, c), underWay(c),
				h.Div(h.Class("sparks"),
					sparkline("hold", "hold", done, func(r *history.Run) float64 { return r.HoldSeconds }),
					sparkline("duration", "", done, func(r *history.Run) float64 { return r.Seconds }))))
	}
	out := g.Group{h.Section(h.Aria("label", "Clusters"), h.Ul(h.Class("clusters"), cards))}
	if more > 0 {
		out = append(out, h.P(g.Text(fmt.Sprintf("%d more clusters: use the search to find them.", more))))
	}
	return out
}

func clusterBadge(s *fleet.State, c *fleet.Cluster) g.Node {
	failed := len(c.Failures()) > 0
	switch {
	case c.Held(s.Read) && !c.Live():
		return badge("held, no live run", "bad")
	case c.Live() && c.Lock.Record.Silent(s.Read):
		return badge("lock not renewed", "warn")
	case c.Live():
		return badge("running", "warn")
	case dead(c):
		return badge("last run died", "bad")
	case c.RestoredOnly() && failed:
		return badge("restore failed", "bad")
	case c.RestoredOnly():
		return badge("restored", "good")
	case c.Sealed == nil:
		return badge("no sealed backup", "bad")
	case failed:
		return badge("last backup failed", "bad")
	}
	return badge("idle", "good")
}

func newest(s *fleet.State, c *fleet.Cluster) g.Node {
	if c.RestoredOnly() {
		return h.P(g.Text("The target of a restore; it has never been backed up."))
	}
	if c.Sealed == nil {
		return h.P(g.Text("No sealed backup: nothing to restore."))
	}
	return h.P(g.Text("Last sealed "), g.El("strong", g.Text(age(c.Sealed.SealedAt, s.Read)+" ago")), g.Text(": "),
		backupLink(string(c.Sealed.ID)))
}

// dead reports whether the process of the last run that had the cluster's lock died.
func dead(c *fleet.Cluster) bool { return c.Lock != nil && c.Lock.Dead() }

// underWay links the run that works on the cluster, or that died doing so.
func underWay(c *fleet.Cluster) g.Node {
	state := " running: "
	switch {
	case dead(c):
		state = " died: "
	case !c.Live():
		return nil
	}
	owner := c.Lock.Record.Owner
	return h.P(g.Text(short(owner.Command)+state), runLink(string(owner.Run)))
}

// table begins with what an emergency asks for: a phone shows the first three columns.
func table(s *fleet.State, entries []catalog.Entry) g.Node {
	rows := g.Group{}
	for i := range entries {
		e := &entries[i]
		of, size, hold, took := "-", "-", "-", "-"
		if e.Cluster != (cluster.Name{}) {
			of = e.Cluster.String()
		}
		if e.SizeGiB > 0 {
			size = report.Bytes(e.SizeGiB * gib)
		}
		if run := s.Made(e.Run); run != nil {
			took = report.Duration(run.Seconds)
			if run.HoldSeconds > 0 {
				hold = report.Duration(run.HoldSeconds)
			}
		}
		rows = append(rows,
			h.Tr(h.Th(h.Scope("row"), backupLink(string(e.ID))), h.Td(stateBadge(e.State)),
				num(age(e.CreatedAt, s.Read)), h.Td(g.Text(short(of))), num(size),
				num(strconv.Itoa(e.Snapshots)), num(hold), num(took)))
	}
	return scroll("Backups",
		h.Table(h.THead(h.Tr(column("backup", ""), column("state", ""), column("age", "num"),
			column("cluster", ""), column("size", "num"), column("snapshots", "num"), column("hold", "num"),
			column("took", "num"))),
			h.TBody(rows)))
}

func stateBadge(state catalog.State) g.Node {
	class := map[catalog.State]string{
		catalog.StateSealed: "good", catalog.StateUnsealed: "warn", catalog.StateRemoving: "",
		catalog.StateDamaged: "bad",
	}[state]
	return badge(string(state), class)
}

func pager(question string, number, pages int) g.Node {
	if pages == 1 {
		return nil
	}
	to := func(n int) string { return "/?" + url.Values{"q": {question}, "page": {strconv.Itoa(n)}}.Encode() }
	out := g.Group{}
	if number > 1 {
		out = append(out, h.A(h.Rel("prev"), h.Href(to(number-1)), g.Text("Newer")))
	}
	out = append(out, h.Span(g.Text(fmt.Sprintf("page %d of %d", number, pages))))
	if number < pages {
		out = append(out, h.A(h.Rel("next"), h.Href(to(number+1)), g.Text("Older")))
	}
	return h.Nav(h.Class("pages"), h.Aria("label", "Pages of backups"), out)
}

// maxRuns is how many restores and how many failed runs are listed.
const maxRuns = 20

// restores lists the newest restores and resolves, whatever became of them.
func restores(s *fleet.State, question string) g.Node {
	rows := g.Group{}
	for i := len(s.Runs) - 1; i >= 0 && len(rows) < maxRuns; i-- {
		r := &s.Runs[i]
		text := strings.ToLower(fmt.Sprintf("%s %s %s", r.Run, r.Cluster, r.Backup))
		if r.Operation == report.Backup || r.Operation == report.Archive || r.Operation == report.Copy ||
			r.Operation == report.Drill ||
			!strings.Contains(text, strings.ToLower(strings.TrimSpace(question))) {
			continue
		}
		outcome := badge(string(r.Outcome), "good")
		if r.Outcome != phase.Done {
			outcome = badge(short(string(r.Outcome)), "bad")
		}
		rows = append(rows,
			h.Tr(h.Th(h.Scope("row"), runLink(string(r.Run))), h.Td(outcome), num(age(r.Finished, s.Read)+" ago"),
				h.Td(g.Text(short(string(r.Operation)))), h.Td(g.Text(short(r.Cluster.String()))),
				h.Td(backupLink(string(r.Backup))), num(report.Duration(r.Seconds))))
	}
	if len(rows) == 0 {
		return nil
	}
	return h.Section(h.Aria("label", "Restores"), h.H2(h.Class("title"), g.Text("Recent restores")),
		scroll("Restores",
			h.Table(h.THead(
				h.Tr(column("run", ""), column("state", ""), column("ended", "num"), column("operation", ""),
					column("into", ""), column("backup", ""), column("took", "num"))), h.TBody(rows))))
}

// failures are the runs that died with their cluster's lock, and the most recent failed ones: the list of backups has
// none of them.
func failures(s *fleet.State, question string) g.Node {
	rows := g.Group{}
	add := func(run cluster.RunID, kind string, ended time.Time, of report.Operation, name cluster.Name,
		backup cluster.BackupID, seconds float64,
	) {
		text := strings.ToLower(fmt.Sprintf("%s %s %s %s", run, name, backup, kind))
		if len(rows) == maxRuns || !strings.Contains(text, strings.ToLower(strings.TrimSpace(question))) {
			return
		}
		rows = append(rows,
			h.Tr(h.Th(h.Scope("row"), runLink(string(run))), h.Td(badge(kind, "bad")),
				num(age(ended, s.Read)+" ago"), h.Td(g.Text(short(string(of)))),
				h.Td(g.Text(short(name.String()))), num(report.Duration(seconds))))
	}
	clusters, _ := s.Ordered(len(s.Clusters))
	for _, c := range clusters {
		if dead(c) {
			r := &c.Lock.Record
			add(r.Owner.Run, "died", r.RenewedAt, c.Lock.Operation(), c.Name, c.Lock.About.Backup,
				r.RenewedAt.Sub(r.AcquiredAt).Seconds())
		}
	}
	for i := len(s.Runs) - 1; i >= 0; i-- {
		if r := &s.Runs[i]; r.Outcome != phase.Done {
			add(r.Run, r.ErrorKind, r.Finished, r.Operation, r.Cluster, r.Backup, r.Seconds)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return h.Section(h.Aria("label", "Failed runs"), h.H2(h.Class("title"), g.Text("Recent failed runs")),
		scroll("Failed runs",
			h.Table(h.THead(
				h.Tr(column("run", ""), column("kind", ""), column("ended", "num"), column("operation", ""),
					column("cluster", ""), column("took", "num"))), h.TBody(rows))))
}
