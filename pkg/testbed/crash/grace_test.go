package crash

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// everything is the prefix of all points.
const everything = ""

// stopped is a command that gets SIGTERM at a point, and no answer at the points of a prefix from then on.
type stopped struct {
	args       func(context.Context, *world) ([]string, error) // makes what the command works on
	at, stalls string
	code       int
	left       []string // what it prints at the end
	again      bool     // the same command finishes it
	// expire lets locks expire besides those of the clusters in the world's storage; may be nil
	expire func(context.Context, *world) error
}

// graceful are the commands that change something, each at a call that is in the middle of its changes.
func graceful() map[string]stopped {
	removes := func(prepare func(context.Context, *world) ([]string, error), call string, left ...string) stopped {
		return stopped{args: prepare, at: call, stalls: call, code: exitTerminated, left: append(left, "run it again"), again: true}
	}
	return map[string]stopped{
		"backup":  {args: ofRun(Backup), at: "journal.begin.wait", stalls: "ec2.DeleteSnapshot", code: exitTerminated, left: []string{"snap-", "tisnap gc"}},
		"restore": {args: ofRun(Restore), at: "journal.begin.start-tikv", stalls: "ec2.DeleteVolume", code: exitTerminated, left: []string{"vol-", "tisnap gc"}},
		"resolve": {args: ofRun(Resolve), at: "journal.begin.prepare", stalls: "pd.", code: exitTerminated, left: []string{"tisnap resolve tidb/copy-1"}},
		"prune":   removes(ofRun(Prune), "ec2.DeleteSnapshot", "backup-1", "snap-"),
		"delete":  removes(ofRun(Delete), "ec2.DeleteSnapshot", "backup-1", "snap-"),
		"gc":      removes(ofKilled(Backup, "wait", "gc", "--older-than", "0s", "--yes", "--delete-rate", "100"), "ec2.DeleteSnapshot", "snap-"),
		"restore abort": {
			args: ofKilled(Restore, "collect", "restore", "abort", killedRun, "--yes", "--delete-rate", "100"), at: "kube.delete.tidbclusters",
			stalls: everything, code: exitTerminated, left: []string{"run it again to delete the rest", "its lock expires"}, again: true,
		},
		"runs abort": {
			args: ofKilled(Backup, "wait", "runs", "abort", killedRun, "--yes"), at: "ec2.DeleteSnapshot", stalls: "ec2.DeleteSnapshot",
			code: exitTerminated, left: []string{"run " + killedRun, "tisnap runs abort " + killedRun}, again: true,
		},
		"archive create": {
			args: ofRun(Archive), at: "ebs.GetSnapshotBlock", stalls: everything, code: exitTerminated, left: []string{"the same command resumes the archive"}, again: true,
		},
		"copy": {
			args: ofCopy, at: "ec2.CopySnapshot.late", stalls: everything, code: exitTerminated, left: []string{"the same command resumes the copy"}, again: true,
			expire: expireCopy,
		},
		"drill": {
			args: ofDrill, at: "kube.create.networkpolicies", stalls: everything, code: exitTerminated, left: []string{"tisnap drill clean"},
		},
		"drill clean": {
			args: ofKilledDrill, at: "kube.delete.namespaces", stalls: everything, code: exitTerminated, left: []string{"tisnap drill clean"},
		},
		"release": {args: ofPaused, at: "pd.ResumeScheduler", stalls: "pd.", code: exitHeld, left: []string{"tisnap release tidb/prod --yes again"}, again: true},
	}
}

// A pod that is evicted has ten seconds. What its process has to undo is never answered here, so that only its bound ends
// it: the process exits on its own, the cluster is released, and what is left is named. Where it reports that the same command
// finishes the work, that does.
func TestGrace_TenSecondsAndNothingAnswers_EndsAndListsLeftovers(t *testing.T) {
	t.Parallel()
	for command, row := range graceful() {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			path, err := shipped.Program()
			require.NoError(t, err)
			w, err := newWorld(ctx, t.TempDir(), &Program{Path: path}, 1)
			require.NoError(t, err)
			defer w.bed.Close()
			args, err := row.args(ctx, w)
			require.NoError(t, err, "%s", &w.out)
			var signalled atomic.Bool
			w.faults.Watch(func(point string) *fault.Rule {
				if point == row.at && signalled.CompareAndSwap(false, true) {
					w.program.Signal(syscall.SIGTERM)
				}
				// A copy that EC2 has accepted it makes, whatever becomes of the calls.
				if signalled.Load() && strings.HasPrefix(point, row.stalls) && !strings.HasSuffix(point, ".late") {
					return &fault.Rule{Position: fault.Stall}
				}
				return nil
			})
			defer w.faults.Watch(nil)
			w.out.Reset()
			code, err := w.tisnap(ctx, append(args, "--grace-period", "10s")...)
			require.NoError(t, err)
			require.Equal(t, row.code, code, "%s", &w.out)
			_, output, _ := strings.Cut(w.out.String(), "\n") // without the command line
			for _, left := range row.left {
				require.Contains(t, output, left)
			}
			if row.again {
				w.faults.Watch(nil)
				require.NoError(t, errors.Join(w.expire(ctx, source), w.expire(ctx, firstTarget)))
				if row.expire != nil {
					require.NoError(t, row.expire(ctx, w))
				}
				require.NoError(t, w.succeeds(ctx, args...), "%s", &w.out)
			}
			require.NoError(t, w.awaitRelease(ctx, source))
		})
	}
}
