package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// A process that is killed when its last record is written has done everything and only did not report it. The same command finds
// nothing to continue: it is refused, changes nothing, and reports what became of the run.
func TestKilled_AfterTheLastRecord_TheRunIsDoneAndTheSameCommandReportsIt(t *testing.T) { //nolint:tparallel // the runs share a world
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	path, err := shipped.Program()
	require.NoError(t, err)
	w, err := newWorld(ctx, t.TempDir(), &Program{Path: path}, 1)
	require.NoError(t, err)
	defer w.bed.Close()
	for _, row := range []struct {
		run  Run
		want string
	}{
		{Backup, "a backup of this name exists"},
		{Restore, " has restored backup baseline to it, and ended at 20"},
		{Resolve, " has restored backup baseline to it, and ended at 20"},
	} {
		t.Run(string(row.run), func(t *testing.T) {
			if err := w.scene(row.run).killedAfterEnd(ctx, row.want); err != nil {
				t.Fatalf("%v\n%s", err, w.out.String())
			}
			w.out.Reset()
		})
	}
}

func (s *scene) killedAfterEnd(ctx context.Context, want string) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.faults.Watch(func(point string) *fault.Rule {
		if point != "journal.end" {
			return nil
		}
		return &fault.Rule{Position: fault.After, Do: func() { s.program.Signal(syscall.SIGKILL) }}
	})
	code, err := s.tisnap(ctx, s.args()...)
	s.faults.Watch(nil)
	if err != nil || code != -1 {
		return fmt.Errorf("the program was not killed: it ended with %d: %w", code, err)
	}
	if err := s.awaitRelease(ctx, source); err != nil {
		return err
	}
	before := s.out.Len()
	code, err = s.tisnap(ctx, s.args()...)
	if err != nil {
		return err
	}
	if code != exitConflict || !strings.Contains(s.out.String()[before:], want) {
		return fmt.Errorf("the same command ended with %d, and did not print %q", code, want)
	}
	return s.verifyResult(ctx)
}

// An abort that is killed at its end, before the name of its backup is free or before its restore has ended, is finished by
// the next one: the name is taken again, and nothing of the run is unfinished.
func TestKilled_AbortAtItsEnd_TheNextOneFinishesIt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args     func(context.Context, *world) ([]string, error)
		position fault.Position // of the kill at the run's last record
		next     []string
	}{
		"runs abort": {ofKilled(Backup, "wait", "runs", "abort", killedRun, "--yes"), fault.After, []string{"--dry-run"}},
		"restore abort": {
			ofKilled(Restore, "collect", "restore", "abort", killedRun, "--yes", "--delete-rate", "100"), fault.Before, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			path, err := shipped.Program()
			require.NoError(t, err)
			w, err := newWorld(ctx, t.TempDir(), &Program{Path: path}, 1)
			require.NoError(t, err)
			defer w.bed.Close()
			args, err := row.args(ctx, w)
			require.NoError(t, err, "%s", &w.out)
			w.faults.Watch(func(point string) *fault.Rule {
				if point != "journal.end" {
					return nil
				}
				return &fault.Rule{Position: row.position, Do: func() { w.program.Signal(syscall.SIGKILL) }}
			})
			code, err := w.tisnap(ctx, args...)
			w.faults.Watch(nil)
			require.NoError(t, err)
			require.Equal(t, -1, code, "it was not killed: %s", &w.out)
			require.NoError(t, errors.Join(w.expire(ctx, source), w.expire(ctx, firstTarget)))
			require.NoError(t, w.succeeds(ctx, args...), "%s", &w.out)
			require.NoError(t, w.awaitRelease(ctx, source))
			require.NoError(t, w.balanced(ctx))
			w.out.Reset()
			require.NoError(t, w.succeeds(ctx, "runs", "describe", killedRun, "-o", "json"))
			require.Contains(t, w.out.String(), `"state": "failed"`)
			if row.next != nil {
				require.NoError(t, w.succeeds(ctx, append(w.backupArgs("backup-1"), row.next...)...), "%s", &w.out)
			}
		})
	}
}
