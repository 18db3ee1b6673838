package claims_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/archive/claims"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// A second Remove does not pass over a volume whose claim is gone already.
func TestRemove_VolumeIsLeft_IsWaitedFor(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Stand = l.works(t)
	items, err := l.filler.Fill(within(t), archive())
	require.NoError(t, err)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err = l.filler.Remove(ctx)
		cancel()
		require.ErrorContains(t, err, "its driver has not deleted volume "+items[0].Bound.Name)
	}
	require.NoError(t, l.server.Remove(l.server.Get("persistentvolumes", "", items[0].Bound.Name)))
	_, err = l.filler.Remove(within(t))
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
}

// All that the run made goes, whichever archive and stores it is of, and nothing else: not a Job or a restored cluster's
// claim of the same run, nor what a run with the same label made.
func TestRemove_AllOfTheRun_NothingElse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	prepare := func(of cluster.RunID, job string, store uint64) (workers.Job, blockvolume.Claim) {
		jobs := workers.New(l.core)
		made, err := jobs.Make(within(t), workers.Spec{
			Run: of, Namespace: "tidb", Name: job, Image: "tisnap:v1", Args: []string{"archive"}, Pods: 1,
		})
		require.NoError(t, err)
		claim, err := blockvolume.New(l.core).Make(within(t), blockvolume.Spec{
			Run: of, Namespace: "tidb", Name: blockvolume.NameOf(of, store, "data"), Class: "files", SizeGiB: 1, Content: "archive-0",
		})
		require.NoError(t, err)
		return made, claim
	}
	_, fourth := prepare(run, claims.JobName(run, 4), 4)
	_, gone := prepare(run, claims.JobName(run, 1), 1) // of a store that the newest archive does not have
	_, other := prepare("a-run", claims.JobName("a-run", 4), 4)
	archiving, ownClaim := prepare(run, "tisnap-archive-a-run", 9)
	restored, err := l.core.PersistentVolumeClaims("tidb").Get(within(t), ownClaim.Name, metav1.GetOptions{})
	require.NoError(t, err)
	delete(restored.Annotations, "tisnap.io/content")
	_, err = l.core.PersistentVolumeClaims("tidb").Update(within(t), restored, metav1.UpdateOptions{})
	require.NoError(t, err)

	removed, err := l.filler.Remove(within(t))
	require.NoError(t, err)
	require.ElementsMatch(t, []blockvolume.Claim{fourth, gone}, removed)
	var left []string
	for _, kind := range []string{"jobs", "persistentvolumeclaims"} {
		for _, o := range l.server.List(kind, "tidb") {
			left = append(left, o.GetName())
		}
	}
	require.ElementsMatch(t, []string{archiving.Name, restored.Name, claims.JobName("a-run", 4), other.Name}, left)
}

// A claim whose deletion was asked for costs one small question, and each has a deadline of its own.
func TestRemove_SomethingKeepsAClaim_OnlyTheClaimIsRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Stand = l.works(t)
	_, err := l.filler.Fill(within(t), archive())
	require.NoError(t, err)
	claim := l.claim(t)
	claim.Finalizers = append(claim.Finalizers, "the.test/keeps")
	_, err = l.core.PersistentVolumeClaims("tidb").Update(within(t), claim, metav1.UpdateOptions{})
	require.NoError(t, err)
	l.before["DELETE persistentvolumeclaims"] = func() {
		l.server.Deny("list", "pods")
		l.server.Deny("list", "persistentvolumes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = l.filler.Remove(ctx)
	require.ErrorContains(t, err, "a pod uses it")
}

// No claim is touched while a Job's pod may hold its volume.
func TestRemove_JobStays_ClaimsStay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Options.Workers = 2
	ctx, cancel := context.WithCancel(within(t))
	l.filler.Stand = func(uint64, workers.State) { cancel() }
	_, err := l.filler.Fill(ctx, archive())
	require.Error(t, err)
	l.server.Deny("delete", "jobs")
	_, err = l.filler.Remove(within(t))
	require.True(t, failure.Is(err, failure.Denied), "%v", err)
	require.Nil(t, l.claim(t).DeletionTimestamp)
}

// A claim that something keeps does not keep the others.
func TestRemove_OneClaimIsKept_OthersGo(t *testing.T) {
	t.Parallel()
	for _, kept := range []uint64{1, 4} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.filler.Options.Workers = 2
			for _, store := range []uint64{1, 4} {
				made, err := blockvolume.New(l.core).Make(within(t), blockvolume.Spec{
					Run: run, Namespace: "tidb", Name: blockvolume.NameOf(run, store, "data"), Class: "files", SizeGiB: 1,
				})
				require.NoError(t, err)
				if store != kept {
					continue
				}
				o := l.server.Get("persistentvolumeclaims", "tidb", made.Name)
				o.SetFinalizers([]string{"the.test/keeps"})
				require.NoError(t, l.server.Put(o))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			removed, err := l.filler.Remove(ctx)
			require.ErrorContains(t, err, "a pod uses it")
			require.Len(t, removed, 1)
			require.Equal(t, blockvolume.NameOf(run, 5-kept, "data"), removed[0].Name)
		})
	}
}
