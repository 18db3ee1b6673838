package cli

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// The retry of the same night continues a backup that died; the next night's takes a new one, as nobody would look for
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
		"the same night":      {10 * time.Minute, journal.Backup, "", true},
		"the night after":     {24 * time.Hour, journal.Backup, "", false},
		"asked for":           {24 * time.Hour, journal.Backup, "dead", true},
		"a restore of a week": {24 * time.Hour, journal.Restore, "", true},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			about := journal.About{Operation: row.operation, Cluster: name, Backup: "b"}
			j := phase.NewStoreJournal(store, manifest.JournalPrefix("dead"))
			require.NoError(t, j.Append(t.Context(), phase.Record{
				Seq: 1, Run: "dead", Time: time.Now().Add(-row.age), Type: phase.RecordRun,
				Data: []byte(`{"operation":"` + string(row.operation) + `","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","request":{"tag":""}}`),
			}))
			lock, err := runlock.Acquire(t.Context(), store, name, runlock.Owner{Run: "dead"}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			id, _, err := continued(t.Context(), store, zap.NewNop(), row.chosen, about)
			require.NoError(t, err)
			require.Equal(t, row.want, id == "dead", id)
		})
	}
}

// What the files of --patch and --from-manifest say is part of the request: a restore with other ones is another restore.
func TestContinued_AnotherRequest_IsNotContinuedAndTheDifferenceIsSaid(t *testing.T) {
	t.Parallel()
	object := func(replicas int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"spec":{"tikv":{"replicas":%d}}}`, replicas))
	}
	was := restore.Options{Changes: kube.Changes{Manifest: object(3), Patches: []json.RawMessage{object(4), object(5)}}}
	for name, row := range map[string]struct {
		change func(*restore.Options)
		said   string // "" if it is the same request
	}{
		"the same":               {func(*restore.Options) {}, ""},
		"another patch":          {func(o *restore.Options) { o.Changes.Patches = []json.RawMessage{object(4), object(6)} }, "--patch is"},
		"the patches turned":     {func(o *restore.Options) { o.Changes.Patches = []json.RawMessage{object(5), object(4)} }, "--patch is"},
		"no patch":               {func(o *restore.Options) { o.Changes.Patches = nil }, `--patch is ""`},
		"another manifest":       {func(o *restore.Options) { o.Changes.Manifest = object(7) }, "--from-manifest is"},
		"the source's own":       {func(o *restore.Options) { o.Changes.Manifest = nil }, `--from-manifest is ""`},
		"other volumes":          {func(o *restore.Options) { o.Volume.IOPS = 7000 }, `--volume-iops is "7000" and was "0"`},
		"how long it is waited":  {func(o *restore.Options) { o.Timeout = time.Minute }, ""},
		"a failed run's remains": {func(o *restore.Options) { o.KeepOnFailure = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			about := journal.About{Operation: journal.Restore, Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Backup: "b", Request: was.Request()}
			data, err := json.Marshal(about)
			require.NoError(t, err)
			require.NoError(t, phase.NewStoreJournal(store, manifest.JournalPrefix("dead")).
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
			if row.said == "" {
				require.EqualValues(t, "dead", id)
				return
			}
			require.NotEqualValues(t, "dead", id)
			require.Equal(t, 1, logged.Len())
			require.Contains(t, fmt.Sprint(logged.All()[0].ContextMap()["error"]), row.said)
		})
	}
}
