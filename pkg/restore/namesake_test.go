package restore

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// otherKubernetes is a Kubernetes cluster of which nothing is asked but which one it is.
type otherKubernetes struct{ kube.Restorer }

func (otherKubernetes) ClusterUID(context.Context) (string, error) { return "uid-b", nil }

// diedIn writes the journal of a run that died in Kubernetes cluster uid-a, while it was being undone.
func diedIn(t *testing.T, store objstore.Store, operation journal.Operation, o Options, request map[string]string) {
	t.Helper()
	data, err := json.Marshal(journal.About{
		Operation: operation, Cluster: o.Target, Backup: o.Backup, KubernetesUID: "uid-a", Request: request,
	})
	require.NoError(t, err)
	j := journal.NewStoreJournal(store, manifest.JournalPrefix(o.Run))
	for i, record := range []phase.Record{
		{Type: phase.RecordRun, Data: data}, {Type: phase.RecordDone, Step: journal.StepLock},
		{Type: phase.RecordBegin, Step: journal.StepCreateVolumes}, {Type: phase.RecordUndo, Step: journal.StepCreateVolumes},
	} {
		record.Seq, record.Run, record.Time = i+1, o.Run, time.Now()
		require.NoError(t, j.Append(t.Context(), record))
	}
	lock, err := runlock.Acquire(t.Context(), store, o.Target, runlock.Owner{Run: o.Run, Command: string(operation)}, time.Hour)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}

// Under another context than the one that it began with, a run would undo and delete what a namesake has. Its Kubernetes and EC2
// are not asked for anything here: a call would panic.
// Catalogue: H3.
func TestRunInAnotherKubernetes_IsRefusedBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	o := Options{Target: cluster.Name{Namespace: "tidb", Name: "copy"}, Backup: "b", Run: "r", Owner: runlock.Owner{Run: "r"}}
	for name, row := range map[string]struct {
		operation journal.Operation
		request   map[string]string
		run       func(context.Context, Deps, Options) (*Result, error)
	}{
		"a restore": {journal.Restore, o.Request(), Run},
		"a resolve": {journal.Resolve, o.ResolveRequest(), Resolve},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			diedIn(t, store, row.operation, o, row.request)
			before, err := store.List(t.Context(), manifest.RunsPrefix)
			require.NoError(t, err)
			_, err = row.run(t.Context(), Deps{Store: store, Kube: otherKubernetes{}}, o)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, "uid-a")
			require.ErrorContains(t, err, "uid-b")
			after, err := store.List(t.Context(), manifest.RunsPrefix)
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}

// resolve --force breaks no lock of a namesake's run.
func TestBreakLock_OfANamesake_IsRefused(t *testing.T) {
	t.Parallel()
	for uid, broken := range map[string]bool{"uid-a": true, "uid-b": false} {
		t.Run(uid, func(t *testing.T) {
			t.Parallel()
			o := Options{Target: cluster.Name{Namespace: "tidb", Name: "copy"}, Backup: "b", Run: "r"}
			store := objstoretest.NewMemory(nil)
			diedIn(t, store, journal.Restore, o, o.Request())
			lock, err := runlock.Acquire(t.Context(), store, o.Target, runlock.Owner{Run: o.Run}, time.Hour)
			require.NoError(t, err)
			r := newRun(Deps{Store: store}, o, byRun)
			r.target.uid = uid
			err = r.runner.Check(t.Context(), phase.Step{Phase: phaseData, Name: "break", Deadline: time.Minute, Do: r.breakLock, ReadOnly: true})
			require.Equal(t, broken, err == nil, err)
			require.Equal(t, broken, lock.Renew(t.Context()) != nil)
		})
	}
}
