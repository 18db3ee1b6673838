package exporter

import (
	"cmp"
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
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/underway"
)

// maxReports is how many runs of a backup a page shows.
const maxReports = 20

// backupPage shows the reports of a backup and of the runs that restored it.
func (x *Exporter) backupPage(r *http.Request, s *fleet.State) (content, error) {
	id := cluster.BackupID(r.PathValue("id"))
	at := slices.IndexFunc(s.Backups, func(e catalog.Entry) bool { return e.ID == id })
	var made []*history.Run
	for i := range s.Runs {
		if s.Runs[i].Backup == id {
			made = append(made, &s.Runs[i])
		}
	}
	if at < 0 && len(made) == 0 {
		return content{}, failure.New(failure.NotFound, "find backup", short(string(id)),
			"it is not in the storage, or not yet")
	}
	slices.SortStableFunc(made, func(a, b *history.Run) int { return rank(a) - rank(b) })
	reports, err := x.reports(r.Context(), made)
	if err != nil {
		return content{}, err
	}
	var nodes []g.Node
	if at >= 0 {
		nodes = append(nodes, describe(s, &s.Backups[at]))
	}
	nodes = append(nodes, htmlreport.Body(htmlreport.Page{Reports: reports}))
	if len(made) > maxReports {
		nodes = append(nodes, h.P(g.Text(fmt.Sprintf("%d runs of this backup are not shown.", len(made)-maxReports))))
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
func (x *Exporter) reports(ctx context.Context, made []*history.Run) ([]*report.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	made = made[:min(len(made), maxReports)]
	found := make([]*report.Report, len(made))
	err := parallel.Each(ctx, maxReports, made, func(ctx context.Context, i int, run *history.Run) (err error) {
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
		nodes = append(nodes, problem(e.Problem))
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
			heading(lock.Operation(), lock.Record.Cluster),
			h.Div(h.ID("live"), h.Aria("live", "polite"), h.Data("from", "/live/"+url.PathEscape(string(id))), now),
			h.Script(h.Src("/live.js"), h.Defer()),
		}}, nil
	}
	run := s.Made(id)
	if run == nil {
		return x.journalPage(r.Context(), id)
	}
	reports, err := x.reports(r.Context(), []*history.Run{run})
	return content{
		title: "Run " + short(string(id)),
		nodes: []g.Node{related(s, run), htmlreport.Body(htmlreport.Page{Reports: reports})},
	}, err
}

// journalPage shows a run without a report and a lock by its journal: it died, or could not store its report.
func (x *Exporter) journalPage(ctx context.Context, id cluster.RunID) (content, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	var r *runs.Run
	err := manifest.CheckID(cluster.BackupID(id))
	if err == nil {
		r, err = runs.Read(ctx, x.store, id)
	}
	if failure.Is(err, failure.Usage) || failure.Is(err, failure.NotFound) {
		err = failure.New(failure.NotFound, "find run", short(string(id)),
			"it has no report, lock or journal: it failed in its checks, or has not been read yet")
	}
	if err != nil {
		return content{}, err
	}
	status := badge(string(r.State), "warn")
	switch r.State {
	case runs.Unfinished:
		status = badge("died", "bad")
	case runs.Failed:
		status = badge("failed", "bad")
	case runs.Done:
		status = badge("done", "good")
	case runs.Running, runs.Damaged:
	}
	facts := g.Group{}
	add := func(term string, value g.Node) { facts = append(facts, h.Div(h.Dt(g.Text(term)), h.Dd(value))) }
	add("run", g.Text(short(string(id))))
	add("backup", backupLink(string(r.Backup)))
	add("started", g.Text(when(r.Started)))
	add("last record", g.Text(when(r.Last)))
	nodes := []g.Node{
		heading(report.Operation(r.Operation), r.Cluster), h.P(status), h.Dl(h.Class("facts"), facts),
	}
	switch {
	case r.State == runs.Unfinished:
		nodes = append(nodes, problem(fmt.Sprintf("Its process died. Resume it with the command that started it and "+
			"--run-id %s, or undo it: tisnap runs abort %s", id, id)))
	case r.Error != "":
		nodes = append(nodes, problem(r.Error))
	}
	now, alive := r.Last, r.State == runs.Running // since the storage was read
	if alive {
		now = time.Now()
	}
	nodes = append(nodes, stepTable(report.Operation(r.Operation), r.History.Records, r.Started, now, alive))
	return content{title: "Run " + short(string(id)), nodes: nodes}, nil
}

func heading(of report.Operation, name cluster.Name) g.Node {
	return h.H1(h.Class("title"), g.Text(fmt.Sprintf("%s of %s", short(string(of)), short(name.String()))))
}

func problem(text string) g.Node {
	return h.Div(h.Class("problem"), h.Role("note"), g.Text(failure.Line(text)))
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
		now = lock.Record.RenewedAt
		status = badge("no sign of life since "+when(now), "bad")
	default:
		if lock.Record.Silent(now) {
			status = badge("lock not renewed since "+when(lock.Record.RenewedAt), "warn")
		}
		add("running for", age(lock.Record.AcquiredAt, now))
		if len(records) > 0 {
			step := currentStep(records)
			p := underway.Of(lock.About.Operation, records, step, records[0].Time, now)
			add("phase", cmp.Or(p.Phase, "-"))
			add("step", cmp.Or(step, "-"))
			for _, f := range outlook(&p) { // sentences, in which no part is cut out
				facts = append(facts, h.Div(h.Dt(g.Text(f[0])), h.Dd(g.Text(failure.Line(f[1])))))
			}
		}
	}
	return g.Group{
		h.P(status), h.Dl(h.Class("facts"), facts),
		stepTable(lock.Operation(), records, lock.Record.AcquiredAt, now, lock.Alive),
	}
}

// stepTable shows the steps of a run that began then, up to now, or to its last sign of life.
func stepTable(of report.Operation, records []phase.Record, began, now time.Time, alive bool) g.Node {
	phases, rows := underway.Phases(journal.Operation(of)), g.Group{}
	all := phase.StepRuns(records)
	all = all[max(len(all)-maxSteps, 0):]
	failed := slices.ContainsFunc(all, func(s phase.StepRun) bool { return s.Error != "" })
	for _, s := range all {
		end, class := s.End, ""
		if end.IsZero() {
			end = now
			if alive {
				class = "now"
			}
		}
		rows = append(rows,
			h.Tr(h.Class(class), h.Td(g.Text(phases[s.Step])), h.Th(h.Scope("row"), g.Text(short(s.Step))),
				h.Td(stepBadge(stateOf(&s, alive))),
				num("+"+report.Duration(max(0, s.Begin.Sub(began).Seconds()))),
				num(report.Duration(end.Sub(s.Begin).Seconds())),
				g.If(failed, h.Td(h.Class("why"), g.Text(failure.Line(s.Error))))))
	}
	return scroll("Steps of the run",
		h.Table(h.Class("steps"),
			h.THead(
				h.Tr(column("phase", ""), column("step", ""), column("state", ""), column("began", "num"),
					column("took", "num"), g.If(failed, column("why", "")))), h.TBody(rows)))
}

func stepBadge(outcome string) g.Node {
	class := map[string]string{"done": "good", "failed": "bad", "undo failed": "bad", "interrupted": "bad"}[outcome]
	return badge(outcome, class)
}
