package exporter

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
	"github.com/tisnap/tisnap/pkg/underway"
)

// maxReports is how many runs of a backup a page shows.
const maxReports = 20

// backupPage shows the reports of a backup and of the runs that restored it.
func (x *Exporter) backupPage(r *http.Request, s *fleet.State) (content, error) {
	id := cluster.BackupID(r.PathValue("id"))
	at := slices.IndexFunc(s.Backups, func(e catalog.Entry) bool { return e.ID == id })
	var runs []*history.Run
	for i := range s.Runs {
		if s.Runs[i].Backup == id {
			runs = append(runs, &s.Runs[i])
		}
	}
	if at < 0 && len(runs) == 0 {
		return content{}, failure.New(failure.NotFound, "find backup", short(string(id)),
			"it is not in the storage, or not yet")
	}
	slices.SortStableFunc(runs, func(a, b *history.Run) int { return rank(a) - rank(b) })
	reports, err := x.reports(r.Context(), runs)
	if err != nil {
		return content{}, err
	}
	var nodes []g.Node
	if at >= 0 {
		nodes = append(nodes, describe(s, &s.Backups[at]))
	}
	nodes = append(nodes, htmlreport.Body(htmlreport.Page{Reports: reports}))
	if len(runs) > maxReports {
		nodes = append(nodes, h.P(g.Text(fmt.Sprintf("%d runs of this backup are not shown.", len(runs)-maxReports))))
	}
	return content{title: "Backup " + short(string(id)), nodes: nodes}, nil
}

// rank sorts the backup's own run before those that restored it.
func rank(r *history.Run) int {
	if r.Operation == report.Backup {
		return 0
	}
	return 1
}

// reports reads the whole reports of runs.
func (x *Exporter) reports(ctx context.Context, runs []*history.Run) ([]*report.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	runs = runs[:min(len(runs), maxReports)]
	found := make([]*report.Report, len(runs))
	err := parallel.Each(ctx, maxReports, runs, func(ctx context.Context, i int, run *history.Run) (err error) {
		found[i], err = x.history.Report(ctx, run.Key)
		if failure.Is(err, failure.NotFound) {
			return nil // deleted meanwhile
		}
		return err
	})
	return slices.DeleteFunc(found, func(r *report.Report) bool { return r == nil }), err
}

// describe shows what the list of backups has of one.
func describe(s *fleet.State, e *catalog.Entry) g.Node {
	out := g.Group{}
	add := func(term string, value g.Node) { out = append(out, h.Div(h.Dt(g.Text(term)), h.Dd(value))) }
	add("backup", g.Text(short(string(e.ID))))
	add("state", stateBadge(e.State))
	add("age", g.Text(age(e.CreatedAt, s.Read)))
	if e.BackupTS != 0 {
		add("backup ts", g.Text(fmt.Sprintf("%s (%s)", e.BackupTS, when(e.BackupTS.Time()))))
	}
	if e.SizeGiB > 0 {
		add("size", g.Text(fmt.Sprintf("%s in %d snapshots", report.Bytes(e.SizeGiB*gib), e.Snapshots)))
	}
	nodes := g.Group{h.Dl(h.Class("facts"), out)}
	if e.Problem != "" {
		nodes = append(nodes, h.Div(h.Class("problem"), h.Role("note"), g.Text(failure.Line(e.Problem))))
	}
	if s.Owned(e.Run) != nil {
		nodes = append(nodes, h.P(g.Text("Its run has not ended: "), runLink(string(e.Run))))
	}
	return nodes
}

// runPage shows the report of a run that ended, or the progress of a current one.
func (x *Exporter) runPage(r *http.Request, s *fleet.State) (content, error) {
	id := cluster.RunID(r.PathValue("run"))
	if lock := s.Owned(id); lock != nil {
		now, err := x.follow(r.Context(), lock)
		if err != nil {
			return content{}, err
		}
		return content{title: "Run " + short(string(id)), nodes: []g.Node{
			h.H1(h.Class("title"),
				g.Text(fmt.Sprintf("%s of %s", short(string(lock.Operation())), short(lock.Record.Cluster.String())))),
			h.Div(h.ID("live"), h.Aria("live", "polite"), h.Data("from", "/live/"+url.PathEscape(string(id))), now),
			h.Script(h.Src("/live.js"), h.Defer()),
		}}, nil
	}
	run := s.Made(id)
	if run == nil {
		return content{}, failure.New(failure.NotFound, "find run", short(string(id)),
			"it has no report and no lock: it failed in its checks, or has not been read yet")
	}
	reports, err := x.reports(r.Context(), []*history.Run{run})
	return content{
		title: "Run " + short(string(id)),
		nodes: []g.Node{related(s, run), htmlreport.Body(htmlreport.Page{Reports: reports})},
	}, err
}

// related links a run with its backup and with the backup's other runs: the one that made it, those that restored it.
func related(s *fleet.State, run *history.Run) g.Node {
	if run.Backup == "" {
		return nil
	}
	nodes := g.Group{g.Text("Of backup "), backupLink(string(run.Backup))}
	others := 0
	for i := range s.Runs {
		if other := &s.Runs[i]; other.Backup == run.Backup && other.Run != run.Run && others < maxReports {
			others++
			nodes = append(nodes, g.Text(fmt.Sprintf("; its %s ", short(string(other.Operation)))),
				runLink(string(other.Run)))
		}
	}
	return h.P(h.Class("related"), nodes)
}

// livePart is only the progress, for the page's script; nothing for a run that ended.
func (x *Exporter) livePart(r *http.Request, s *fleet.State) (content, error) {
	lock := s.Owned(cluster.RunID(r.PathValue("run")))
	if lock == nil {
		return content{absent: true}, nil
	}
	now, err := x.follow(r.Context(), lock)
	return content{part: true, nodes: []g.Node{now}}, err
}

// follow reads the run's new journal records.
func (x *Exporter) follow(ctx context.Context, lock *fleet.Lock) (g.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	records, err := x.fleet.Follow(ctx, lock.Record.Owner.Run)
	if err != nil {
		return nil, err
	}
	return progress(lock, records, time.Now()), nil
}

// progress shows the steps so far, with how long each took.
func progress(lock *fleet.Lock, records []phase.Record, now time.Time) g.Node {
	facts := g.Group{}
	add := func(term, text string) { facts = append(facts, h.Div(h.Dt(g.Text(term)), h.Dd(g.Text(short(text))))) }
	add("run", string(lock.Record.Owner.Run))
	add("backup", string(lock.About.Backup))
	add("on", lock.Record.Owner.Host)
	add("started", when(lock.Record.AcquiredAt))
	status := badge("running", "warn")
	switch end := lastRecord(records); {
	case end.Type == phase.RecordEnd: // the storage, with the run's report, is read again at the next interval
		status, now = badge("done", "good"), end.Time
		if end.Error != "" {
			status = badge("failed", "bad")
		}
		add("ran for", age(lock.Record.AcquiredAt, now))
	case !lock.Alive:
		status = badge("no sign of life since "+when(lock.Record.RenewedAt), "bad")
	default:
		add("running for", age(lock.Record.AcquiredAt, now))
		if len(records) > 0 {
			p := underway.Of(lock.About.Operation, records, "", records[0].Time, now)
			for _, f := range outlook(&p) {
				add(f[0], f[1])
			}
		}
	}
	phases, rows := underway.Phases(journal.Operation(lock.Operation())), g.Group{}
	all := steps(records)
	failed := slices.ContainsFunc(all, func(s stepState) bool { return s.err != "" })
	for _, s := range all {
		end, class := s.end, ""
		if end.IsZero() {
			end, class = now, "now"
		}
		rows = append(rows,
			h.Tr(h.Class(class), h.Td(g.Text(phases[s.name])), h.Th(h.Scope("row"), g.Text(short(s.name))),
				h.Td(stepBadge(s.outcome)),
				num("+"+report.Duration(max(0, s.begin.Sub(lock.Record.AcquiredAt).Seconds()))),
				num(report.Duration(end.Sub(s.begin).Seconds())), g.If(failed, h.Td(h.Class("why"), g.Text(s.err)))))
	}
	return g.Group{
		h.P(status), h.Dl(h.Class("facts"), facts),
		scroll("Steps of the run",
			h.Table(h.Class("steps"),
				h.THead(
					h.Tr(column("phase", ""), column("step", ""), column("state", ""), column("began", "num"),
						column("took", "num"), g.If(failed, column("why", "")))), h.TBody(rows))),
	}
}

func stepBadge(outcome string) g.Node {
	class := map[string]string{"done": "good", "failed": "bad", "undo failed": "bad"}[outcome]
	return badge(outcome, class)
}
