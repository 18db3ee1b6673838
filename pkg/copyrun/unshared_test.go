package copyrun_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// pulling is the source by the credentials of the target's account.
type pulling struct{ *ebs.Client }

func (pulling) AccountID(context.Context) (string, error) { return away, nil }

// shareAll shares the snapshots of the source with the target's account, or ends that.
func (l *lab) shareAll(t *testing.T, change func(ctx context.Context, id cluster.SnapshotID, accounts []string) error) {
	t.Helper()
	for _, s := range l.from.server.Snapshots() {
		require.NoError(t, change(t.Context(), s.ID, []string{away}))
	}
}

// A pull by credentials that may not write to the source's storage has no lease there: it warns, and copies all the same. If
// what it cannot protect is deleted before it copies, there is no copy.
func TestRun_PullMayNotWriteToTheSource_WarnsAndCopies(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"it stays": false, "it is deleted meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 2)
			backup := l.backup(t)
			l.shareAll(t, l.from.client.ShareSnapshot)
			written := len(l.from.store.MutatingCalls())
			deny := fault.Rule{Point: "s3.PutObject", Position: fault.Before, Code: "AccessDenied", Times: -1}
			if deleted {
				deny.Times, deny.Do = 1, func() {
					_, err := gc.Delete(t.Context(), gc.Deps{EBS: l.from.client, Store: l.from.at()}, gc.DeleteOptions{Backup: backup, Last: true, Rate: 1000})
					assert.NoError(t, err)
				}
			}
			require.NoError(t, l.from.s3.Add(deny))
			reported := &notes{}
			deps := l.deps()
			deps.Source, deps.Sink = pulling{l.from.client}, reported
			result, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
			require.Contains(t, reported.text, "cannot be written to, so that the backup may be deleted while it is copied")
			if deleted {
				require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
				require.Zero(t, l.copies())
				return
			}
			require.NoError(t, err)
			require.True(t, result.Sealed)
			l.requireWhole(t, backup)
			require.Len(t, l.from.store.MutatingCalls(), written)
		})
	}
}

// A pull failed, a push resumes it, seals the copy and cannot end the sharing: the next process does.
func TestRun_PushResumesAPullAndDies_NothingStaysShared(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	backup := l.backup(t)
	l.shareAll(t, l.from.client.ShareSnapshot)
	require.NoError(t, l.to.faults.Add(fault.Rule{Point: "ec2.CopySnapshot.late", Position: fault.Before, Times: 3}))
	pull := l.deps()
	pull.Source = pulling{l.from.client}
	_, err := copyrun.Run(t.Context(), pull, l.options(backup, "run-1"))
	require.ErrorContains(t, err, "failed 3 times")
	l.shareAll(t, l.from.client.UnshareSnapshot)
	require.NoError(t, l.from.faults.Add(fault.Rule{
		Point: "ec2.ModifySnapshotAttribute", Position: fault.Before, Nth: 2, Code: "UnauthorizedOperation",
	}))
	result, err := copyrun.Run(t.Context(), l.deps(), l.options(backup, "run-1"))
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.True(t, result.Sealed)
	require.Len(t, result.Shared, 1)
	l.run(t, backup, "run-1")
	l.requireUnshared(t)
}

// The snapshots are no longer shared while they are copied: whatever EC2 makes of the copies that have begun, which is not
// documented, there is a whole copy or none, and the error names what to do. With that done the same command ends with a
// copy, and without it gc deletes what there is.
func TestRun_NoLongerSharedMeanwhile_CompleteOrNothing(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		pull, needSource, allBegun := n&1 > 0, n&2 > 0, n&4 > 0
		t.Run(fmt.Sprintf("pull %t, the source is needed %t, all have begun %t", pull, needSource, allBegun), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 3, func(c *ebstest.Config) {
				c.Rules.Copies.NeedSource = needSource
				if !allBegun {
					c.Rules.Copies.InProgress = 1
				}
			})
			backup := l.backup(t)
			deps := l.deps()
			if pull {
				deps.Source = pulling{l.from.client}
				l.shareAll(t, l.from.client.ShareSnapshot)
			}
			meanwhile := map[bool]string{false: "ec2.CopySnapshot", true: "ec2.DescribeSnapshots"}[allBegun]
			var begun atomic.Bool
			var once sync.Once
			l.to.faults.Watch(func(point string) *fault.Rule {
				if point == meanwhile && begun.Load() {
					once.Do(func() { l.shareAll(t, l.from.client.UnshareSnapshot) })
				}
				if point != "ec2.CopySnapshot.late" {
					return nil
				}
				begun.Store(true)
				return &fault.Rule{Position: fault.Slow, Delay: time.Minute}
			})
			_, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
			l.to.faults.Watch(nil)
			if err == nil {
				require.True(t, allBegun && !needSource)
				l.requireWhole(t, backup)
				return
			}
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.Contains(t, failure.HintOf(err), "share it with account "+away)
			_, err = catalogOf(l.to).Load(t.Context(), backup)
			require.Error(t, err)
			if n%3 == 0 {
				require.Eventually(t, func() bool { // EC2 may hide a copy at first
					_, err := gc.Collect(t.Context(), gc.Deps{EBS: l.to.client, Store: l.to.at()}, gc.Options{Rate: 1000})
					require.NoError(t, err)
					return l.copies() == 0
				}, 20*time.Second, hidden)
			}
			if pull {
				l.shareAll(t, l.from.client.ShareSnapshot)
			}
			_, err = copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
			require.NoError(t, err)
			l.requireWhole(t, backup)
			require.Equal(t, 3, l.copies())
			if !pull {
				l.requireUnshared(t)
			}
		})
	}
}
