package cli

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// The retry of the same night continues a backup that died; the next night's takes a new one, as no one would look for
// last night's data in it.
func TestContinued_BackupOfTheNightBefore_IsNotContinuedUnasked(t *testing.T) {
	t.Parallel()
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	for text, row := range map[string]struct {
		age       time.Duration
		operation journal.Operation
		chosen    string
		want      bool
	}{
		"the same night":       {10 * time.Minute, journal.Backup, "", true},
		"the night after":      {24 * time.Hour, journal.Backup, "", false},
		"asked for":            {24 * time.Hour, journal.Backup, "dead", true},
		"a restore of a week":  {24 * time.Hour, journal.Restore, "", true},
		"an archive of a week": {24 * time.Hour, journal.Archive, "", true},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			about := journal.About{Operation: row.operation, Cluster: name, Backup: "b", ClusterID: 7}
			j := journal.NewStoreJournal(store, manifest.JournalPrefix("dead"))
			require.NoError(t, j.Append(t.Context(), phase.Record{
				Seq: 1, Run: "dead", Time: time.Now().Add(-row.age), Type: phase.RecordRun,
				Data: []byte(`{"operation":"` + string(row.operation) + `","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","clusterID":"7","request":{"tag":""}}`),
			}))
			lock, err := runlock.Acquire(t.Context(), store, about.Lock(), runlock.Owner{Run: "dead"}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			id, _, err := continued(t.Context(), store, zap.NewNop(), row.chosen, about)
			require.NoError(t, err)
			require.Equal(t, row.want, id == "dead", id)
		})
	}
}

// The contents of the files of --patch and --from-manifest are part of the request: a restore with other ones is another restore.
func TestContinued_AnotherRequest_IsRefusedWithTheDifference(t *testing.T) {
	t.Parallel()
	object := func(replicas int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"spec":{"tikv":{"replicas":%d}}}`, replicas))
	}
	was := restore.Options{Changes: operator1.Changes{Manifest: object(3), Patches: []json.RawMessage{object(4), object(5)}}}
	for name, row := range map[string]struct {
		change     func(*restore.Options)
		difference string // "" if it is the same request
	}{
		"the same":               {func(*restore.Options) {}, ""},
		"another patch":          {func(o *restore.Options) { o.Changes.Patches = []json.RawMessage{object(4), object(6)} }, "--patch is"},
		"the patches turned":     {func(o *restore.Options) { o.Changes.Patches = []json.RawMessage{object(5), object(4)} }, "--patch is"},
		"no patch":               {func(o *restore.Options) { o.Changes.Patches = nil }, `--patch is ""`},
		"another manifest":       {func(o *restore.Options) { o.Changes.Manifest = object(7) }, "--from-manifest is"},
		"the source's own":       {func(o *restore.Options) { o.Changes.Manifest = nil }, `--from-manifest is ""`},
		"other volumes":          {func(o *restore.Options) { o.Volume.IOPS = 7000 }, `--volume-iops is "7000" and was "0"`},
		"larger volumes":         {func(o *restore.Options) { o.Volume.SizeGiB = 200 }, `--volume-size is "200" and was ""`},
		"how long it is waited":  {func(o *restore.Options) { o.Timeout = time.Minute }, ""},
		"a failed run's remains": {func(o *restore.Options) { o.KeepOnFailure = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			about := journal.About{Operation: journal.Restore, Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Backup: "b", KubernetesUID: "u", Request: was.Request()}
			data, err := json.Marshal(about)
			require.NoError(t, err)
			require.NoError(t, journal.NewStoreJournal(store, manifest.JournalPrefix("dead")).
				Append(t.Context(), phase.Record{Seq: 1, Run: "dead", Time: time.Now(), Type: phase.RecordRun, Data: data}))
			lock, err := runlock.Acquire(t.Context(), store, about.Cluster, runlock.Owner{Run: "dead"}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))

			opts := was
			row.change(&opts)
			about.Request = opts.Request()
			core, logged := observer.New(zap.WarnLevel)
			id, _, err := continued(t.Context(), store, zap.New(core), "", about)
			require.NoError(t, err)
			if row.difference == "" {
				require.EqualValues(t, "dead", id)
				return
			}
			require.NotEqualValues(t, "dead", id)
			require.Equal(t, 1, logged.Len())
			require.Contains(t, fmt.Sprint(logged.All()[0].ContextMap()["error"]), row.difference)
		})
	}
}

// `restore latest` continues with the backup that its unfinished run has, although a newer one is sealed by now.
func TestChosenEarlier_OnlyTheSameCommandsRun(t *testing.T) {
	t.Parallel()
	target := cluster.Name{Namespace: "tidb", Name: "copy"}
	for name, row := range map[string]struct {
		change func(*journal.About)
		ended  bool
		want   bool
	}{
		"a newer backup":     {func(*journal.About) {}, false, true},
		"the same backup":    {func(a *journal.About) { a.Backup = "older" }, false, false},
		"a name":             {func(a *journal.About) { a.Chosen = "" }, false, false},
		"another reference":  {func(a *journal.About) { a.Chosen = "latest --before 2h ago" }, false, false},
		"other options":      {func(a *journal.About) { a.Request = map[string]string{"volume-iops": "7000"} }, false, false},
		"another Kubernetes": {func(a *journal.About) { a.KubernetesUID = "v" }, false, false},
		"an unknown one":     {func(a *journal.About) { a.KubernetesUID = "" }, false, false},
		"it has ended":       {func(*journal.About) {}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			about := journal.About{
				Operation: journal.Restore, Cluster: target, Backup: "older", Chosen: latestFlags{}.chosen("latest"), KubernetesUID: "u",
				Request: map[string]string{"volume-iops": ""},
			}
			data, err := json.Marshal(about)
			require.NoError(t, err)
			j := journal.NewStoreJournal(store, manifest.JournalPrefix("dead"))
			require.NoError(t, j.Append(t.Context(), phase.Record{Seq: 1, Run: "dead", Time: time.Now(), Type: phase.RecordRun, Data: data}))
			if row.ended {
				require.NoError(t, j.Append(t.Context(), phase.Record{Seq: 2, Run: "dead", Time: time.Now(), Type: phase.RecordEnd}))
			}
			lock, err := runlock.Acquire(t.Context(), store, target, runlock.Owner{Run: "dead"}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))

			about.Backup = "newer"
			row.change(&about)
			earlier, err := chosenEarlier(t.Context(), store, about)
			require.NoError(t, err)
			require.Equal(t, row.want, earlier != nil)
			if row.want {
				require.EqualValues(t, "older", earlier.Backup)
			}
		})
	}
}

func TestLatestFlags_Chosen(t *testing.T) {
	t.Parallel()
	f := latestFlags{before: "2h ago", of: "tidb/prod"}
	require.Empty(t, f.chosen("nightly-1"))
	require.Equal(t, "latest --before 2h ago --of tidb/prod", f.chosen("latest"))
}

// Two Kubernetes clusters that share a storage may have a cluster of the same name each, and so one lock. Neither continues what
// the other's run has left.
// Catalogue: H3.
func TestRunOfANamesake_IsContinuedOnlyIfItIsChosen(t *testing.T) {
	t.Parallel()
	backup := journal.About{Operation: journal.Backup, Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, Backup: "b", ClusterID: 7, Request: map[string]string{"tag": ""}}
	restored := backup
	restored.Operation, restored.ClusterID, restored.KubernetesUID = journal.Restore, 0, "uid-a"
	for name, row := range map[string]struct {
		was       journal.About
		clusterID uint64
		uid       string
		chosen    string
		want      bool
		reasons   []string
	}{
		"its own backup":                      {backup, 7, "", "", true, nil},
		"a backup of a namesake":              {backup, 8, "", "", false, []string{"PD's cluster id 7", "PD's cluster id 8"}},
		"a backup of an older version":        {withIDs(backup, 0, ""), 7, "", "", false, []string{"may belong to another"}},
		"one of an older version, chosen":     {withIDs(backup, 0, ""), 7, "", "dead", true, nil},
		"its own restore":                     {restored, 0, "uid-a", "", true, nil},
		"a restore into a namesake":           {restored, 0, "uid-b", "", false, []string{"uid-a", "uid-b"}},
		"a restore of an older version":       {withIDs(restored, 0, ""), 0, "uid-a", "", false, []string{"may belong to another"}},
		"a Kubernetes whose uid may not read": {restored, 0, "", "", false, []string{"may belong to another"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			data, err := json.Marshal(row.was)
			require.NoError(t, err)
			require.NoError(t, journal.NewStoreJournal(store, manifest.JournalPrefix("dead")).
				Append(t.Context(), phase.Record{Seq: 1, Run: "dead", Time: time.Now(), Type: phase.RecordRun, Data: data}))
			_, err = runlock.Acquire(t.Context(), store, row.was.Cluster, runlock.Owner{Run: "dead"}, time.Minute)
			require.NoError(t, err)
			core, logged := observer.New(zap.WarnLevel)
			request := withIDs(row.was, row.clusterID, row.uid)
			id, _, err := continued(t.Context(), store, zap.New(core), row.chosen, request)
			require.NoError(t, err)
			require.Equal(t, row.want, id == "dead", id)
			for _, text := range row.reasons {
				require.Contains(t, fmt.Sprint(logged.All()[0].ContextMap()["error"]), text)
			}
		})
	}
}

func withIDs(a journal.About, clusterID uint64, uid string) journal.About {
	a.ClusterID, a.KubernetesUID = clusterID, uid
	return a
}

// A dry run watches the lock of a run that was killed a moment ago as the command itself does: both resume the run, or
// neither does.
func TestResumePlan_LockWasRenewedAMomentAgo_IsWatched(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		wait    time.Duration
		renewed bool // meanwhile
		kind    failure.Kind
	}{
		"its process is dead":       {},
		"its process is alive":      {renewed: true, kind: failure.Conflict},
		"the command does not wait": {wait: runlock.NoWait, kind: failure.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := objstoretest.NewMemory(nil)
				about := journal.About{
					Operation: journal.Restore, Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Backup: "b", Request: map[string]string{"fsr": ""},
				}
				data, err := json.Marshal(about)
				require.NoError(t, err)
				lock, err := runlock.Acquire(t.Context(), store, about.Lock(), runlock.Owner{Run: "r"}, 10*time.Minute)
				require.NoError(t, err)
				appendRecord(t, store, phase.Record{Seq: 1, Type: phase.RecordRun, Data: data})
				if row.renewed {
					time.AfterFunc(20*time.Second, func() { _ = lock.Renew(t.Context()) })
				}
				w := work{id: "r", store: store, request: about, lockWait: row.wait}
				doc, err := w.resumePlan(t.Context(), func(string) {})
				require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
				require.Equal(t, err == nil, doc != nil)
			})
		})
	}
}
