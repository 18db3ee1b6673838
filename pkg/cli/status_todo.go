package cli

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runs"
)

// todo is what is wrong with a cluster, and the command for it.
type todo struct {
	Problem string `json:"problem"`
	Command string `json:"command"`
}

// whatToDo returns the most urgent thing to do; nil for a cluster that is fine.
func (i *clusterItem) whatToDo(c *fleet.Cluster, now time.Time, chosen *clusterChoice) *todo {
	do := func(problem, command string, args ...any) *todo {
		return &todo{problem, fmt.Sprintf("tisnap "+command, args...) + " --storage " + chosen.storage}
	}
	dead := i.Run != nil && i.Run.State == runs.Unfinished
	switch {
	case i.Held && dead:
		return do(fmt.Sprintf("run %s died, and may still hold it", i.Run.ID), "release %s --yes", c.Name)
	case i.Held && !c.Live():
		return do(fmt.Sprintf("run %s ended, and could not release it", c.Last(report.Backup).Run), "release %s --yes",
			c.Name)
	case dead && i.Run.Operation == report.Resolve:
		return do(fmt.Sprintf("run %s died: resume it", i.Run.ID), "resolve %s --backup %s", c.Name, i.Run.Backup)
	case dead:
		return do(fmt.Sprintf("run %s died: resume it with the command that started it and --run-id %s, or undo it",
			i.Run.ID, i.Run.ID), "runs abort %s --yes", i.Run.ID)
	case c.Live():
		return nil // a run is on it
	case i.Failed > 0:
		return do(fmt.Sprintf("%d runs failed since the last good one, the last %s ago (%s)", i.Failed,
			short(now.Sub(i.LastFailure.Finished)), i.LastFailure.Kind), "logs %s", i.LastFailure.ID)
	case c.Sealed == nil && (i.TooOld || !c.RestoredOnly()):
		return do("it has no good backup", "backup %s", c.Name)
	case i.Overdue:
		return do(fmt.Sprintf("its next backup was due %s ago: check what starts its backups, or back it up now",
			short(now.Sub(i.Expected))), "backup %s", c.Name)
	case i.TooOld:
		return do(fmt.Sprintf("its recovery point is older than %s", short(chosen.maxAge)), "backup %s", c.Name)
	}
	return i.besideToDo(c, now, do)
}

// besideToDo is what to do about the drills, archives and copies of a cluster that is fine.
func (i *clusterItem) besideToDo(
	c *fleet.Cluster, now time.Time, do func(problem, command string, args ...any) *todo,
) *todo {
	for _, by := range i.Beside {
		switch {
		case by.State != runs.Unfinished:
		case by.Operation == report.Drill:
			return do(fmt.Sprintf("drill %s died, and what it made is billed by AWS", by.ID), "drill clean %s --yes",
				by.ID)
		default:
			return do(fmt.Sprintf("%s %s died: the command that started it resumes it", by.Operation, by.ID),
				"runs describe %s", by.ID)
		}
	}
	for _, op := range []report.Operation{report.Drill, report.Archive, report.Copy} {
		last := c.Ended(op)
		if last == nil || last.Outcome != phase.Failed {
			continue
		}
		problem := fmt.Sprintf("its last %s, of %s, failed %s ago (%s)", op, last.Backup,
			short(now.Sub(last.Finished)), last.ErrorKind)
		switch {
		case last.ErrorKind == failure.Leaked.String():
			return do(problem, "drill clean %s --yes", last.Run)
		case op == report.Drill:
			return do(problem, "drill report %s", last.Run)
		}
		return do(problem, "logs %s", last.Run)
	}
	return nil
}
