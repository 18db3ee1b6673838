package crash

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// exitTerminated is the exit code of a run that SIGTERM ended.
const exitTerminated = 143

// A pod that is evicted has ten seconds. What its process has to undo is never answered here, so that only its bound ends
// it: the process ends by itself, the cluster is let go, and what is left is named.
func TestGrace_TenSecondsAndNothingAnswers_EndsAndSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	for run, row := range map[Run]struct {
		at, stalls string
		left       []string
	}{
		Backup:  {"journal.begin.wait", "ec2.DeleteSnapshot", []string{"snap-", "tisnap gc"}},
		Restore: {"journal.begin.start-tikv", "ec2.DeleteVolume", []string{"vol-", "tisnap gc"}},
		Resolve: {"journal.begin.prepare", "pd.", []string{"tisnap resolve tidb/copy-1"}},
		Prune:   {"ec2.DeleteSnapshot", "ec2.DeleteSnapshot", []string{"backup-1", "snap-", "run it again"}},
		Delete:  {"ec2.DeleteSnapshot", "ec2.DeleteSnapshot", []string{"backup-1", "snap-", "run it again"}},
	} {
		t.Run(string(run), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			path, err := shipped.Program()
			require.NoError(t, err)
			w, err := newWorld(ctx, t.TempDir(), &Program{Path: path})
			require.NoError(t, err)
			defer w.bed.Close()
			s := w.scene(run)
			require.NoError(t, s.prepare(ctx), w.out.String())
			var stopped atomic.Bool
			w.faults.Watch(func(point string) *fault.Rule {
				if point == row.at && stopped.CompareAndSwap(false, true) {
					w.program.Signal(syscall.SIGTERM)
				}
				if stopped.Load() && strings.HasPrefix(point, row.stalls) {
					return &fault.Rule{Position: fault.Stall}
				}
				return nil
			})
			defer w.faults.Watch(nil)
			w.out.Reset()
			code, err := s.tisnap(ctx, append(s.args(), "--grace-period", "10s")...)
			require.NoError(t, err)
			require.Equal(t, exitTerminated, code, w.out.String())
			for _, left := range row.left {
				require.Contains(t, w.out.String(), left)
			}
			require.NoError(t, w.letsGo(ctx, source))
		})
	}
}
