package exporter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// maxRuns is how many runs each list has.
const maxRuns = 20

// restores lists the newest restores and resolves, whatever became of them.
func restores(s *fleet.State, question string) g.Node {
	return recent(s, question, "Recent restores", "into", report.Restore, report.Resolve)
}

// besides lists the newest drills, archives and copies, whatever became of them.
func besides(s *fleet.State, question string) g.Node {
	return recent(s, question, "Recent drills, archives and copies", "cluster", report.Drill, report.Archive,
		report.Copy)
}

// recent lists the newest runs of these operations.
func recent(s *fleet.State, question, title, of string, operations ...report.Operation) g.Node {
	rows := g.Group{}
	for i := len(s.Runs) - 1; i >= 0 && len(rows) < maxRuns; i-- {
		r := &s.Runs[i]
		text := strings.ToLower(fmt.Sprintf("%s %s %s %s", r.Run, r.Cluster, r.Backup, r.Operation))
		if !slices.Contains(operations, r.Operation) ||
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
	return h.Section(h.Aria("label", title), h.H2(h.Class("title"), g.Text(title)),
		scroll(title,
			h.Table(h.THead(
				h.Tr(column("run", ""), column("state", ""), column("ended", "num"), column("operation", ""),
					column(of, ""), column("backup", ""), column("took", "num"))), h.TBody(rows))))
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
		for _, lock := range c.Open() {
			if r := &lock.Record; lock.Dead() {
				add(r.Owner.Run, "died", r.RenewedAt, lock.Operation(), c.Name, lock.About.Backup,
					r.RenewedAt.Sub(r.AcquiredAt).Seconds())
			}
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
