package crash

import (
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// Run is the command that is killed.
type Run string

// The runs of the matrix.
const (
	Backup  Run = "backup"
	Restore Run = "restore"
)

// steps are those of the run that the shipped program can be killed at here. Fast snapshot restore waits for minutes
// of the program's own clock: the tests of E11 kill it.
func (r Run) steps() []phase.Outline {
	if r == Backup {
		return backup.Outline()
	}
	var out []phase.Outline
	all, _ := restore.Outline()
	for _, s := range all {
		if s.Name != "fast-restore" && s.Name != "end-fast-restore" && s.Name != "end-fast-restore-again" {
			out = append(out, s)
		}
	}
	return out
}

// scene is one run that is killed, run again and checked, on names of its own.
type scene struct {
	*world
	run    Run
	name   string       // of the backup
	target cluster.Name // of the restore
}

// scene makes the next one.
func (w *world) scene(run Run) *scene {
	w.n++
	s := &scene{world: w, run: run, name: baseline, target: cluster.Name{Namespace: "tidb", Name: fmt.Sprintf("copy-%d", w.n)}}
	if run == Backup {
		s.name = fmt.Sprintf("backup-%d", w.n)
	}
	return s
}

// args is the command.
func (s *scene) args() []string {
	if s.run == Backup {
		return s.backupArgs(s.name)
	}
	return s.restoreArgs(s.name, s.target)
}

// locked is the cluster whose lock the run takes.
func (s *scene) locked() cluster.Name {
	if s.run == Backup {
		return source
	}
	return s.target
}

// verifyResult proves what the run made, and removes it: a backup is restored for that.
func (s *scene) verifyResult(ctx context.Context) error {
	if s.run == Backup {
		if err := s.succeeds(ctx, "restore", s.name, "--to", s.target.String(), "--timeout", "1m"); err != nil {
			return err
		}
	}
	if err := s.verify(ctx, s.target); err != nil {
		return err
	}
	if err := s.balanced(ctx); err != nil {
		return err
	}
	if _, err := s.bed.DestroyCluster(ctx, s.target); err != nil {
		return err
	}
	if s.run == Backup {
		return s.succeeds(ctx, "delete", s.name, "--yes", "--delete-rate", "100")
	}
	return nil
}

// again is the same command once more, as a person or a CronJob would give it. A run that was being undone when it died
// is undone first, and run from scratch then: a backup under another name, as one that was used stays taken.
func (s *scene) again(ctx context.Context, at Position) error {
	if at != InUndo && at != AfterUndo {
		return s.succeeds(ctx, s.args()...)
	}
	last, err := runs.Last(ctx, s.store, s.locked())
	if err != nil {
		return err
	}
	if last != nil {
		if err := s.succeeds(ctx, "runs", "abort", string(last.ID), "--yes"); err != nil {
			return err
		}
	}
	if s.run == Backup {
		s.name += "-again"
	}
	return s.succeeds(ctx, s.args()...)
}
