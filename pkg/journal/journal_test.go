package journal_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// The journals of released versions hold these bytes: a row is never changed.
func TestData_IsWrittenAsInEveryReleasedVersion(t *testing.T) {
	t.Parallel()
	prod := cluster.Name{Namespace: "tidb", Name: "prod"}
	for name, row := range map[string]struct {
		data any
		want string
	}{
		"of a backup": {
			journal.About{Operation: journal.Backup, Cluster: prod, Backup: "b", Tool: "v1"},
			`{"operation":"backup","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","tool":"v1"}`,
		},
		"of a restore": {
			journal.About{Operation: journal.Restore, Cluster: prod, Backup: "b", Tool: "v1", Kubernetes: "https://k", Keep: true},
			`{"operation":"restore","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","tool":"v1","kubernetes":"https://k","keepOnFailure":true}`,
		},
		"of a restore that knows the Kubernetes cluster": {
			journal.About{Operation: journal.Restore, Cluster: prod, Backup: "b", Tool: "v1", Kubernetes: "https://k", KubernetesUID: "u"},
			`{"operation":"restore","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","tool":"v1","kubernetes":"https://k","kubernetesUID":"u"}`,
		},
		"of a backup that knows its cluster": {
			journal.About{Operation: journal.Backup, Cluster: prod, Backup: "b", Tool: "v1", ClusterID: 7551812345678901234},
			`{"operation":"backup","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","tool":"v1","clusterID":"7551812345678901234"}`,
		},
		"of a resolve": {
			journal.About{Operation: journal.Resolve, Cluster: prod, Backup: "b", Tool: "v1"},
			`{"operation":"resolve","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","tool":"v1"}`,
		},
		"fast restore": {
			journal.FastRestore{Snapshots: []cluster.SnapshotID{"snap-1"}, Zones: []cluster.Zone{"a", "b"}},
			`{"snapshots":["snap-1"],"zones":["a","b"]}`,
		},
		"leases":    {journal.Leases{LeaseSeconds: 30, MaxHoldSeconds: 120}, `{"leaseSeconds":30,"maxHoldSeconds":120}`},
		"backup ts": {journal.BackupTS{TS: 449000000000000001}, `{"ts":"449000000000000001"}`},
		"volume":    {journal.Volume{Generation: 1, Snapshot: "snap-1", Volume: "vol-1"}, `{"generation":1,"snapshot":"snap-1","volume":"vol-1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(row.data)
			require.NoError(t, err)
			require.Equal(t, row.want, string(body))
		})
	}
}

// Another version of tisnap looks for these names: a name is never changed.
func TestNames_AreThoseOfEveryReleasedVersion(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"lock", "early-apply", "read-replicas", "marks", "connect", "hold", "hold-gc", "backup-ts", "cut", "release", "record", "seal", "release-again",
		"create-cluster", "create-volumes", "bind-volumes", "freeze-scheduling", "find-ahead", "recover", "await-leaders",
		"turn-off-early-apply", "take-leases", "pause-schedulers", "lower-limits", "create-snapshots", "create-volumes", "enable-fast-restore", "leave-recovery",
		"backup-ts", "snapshots", "volume", "fast-restore-disabled", "early-apply-back", "still-held", "serves", "ahead", "expected", "left-recovery", "available",
		"write-snapshots", "delete-snapshots", "write-snapshots", "put",
	}, []string{
		journal.StepLock, journal.StepEarlyApply, journal.StepReadReplicas, journal.StepMarks, journal.StepConnect, journal.StepHold, journal.StepHoldGC, journal.StepBackupTS, journal.StepCut,
		journal.StepRelease, journal.StepRecord, journal.StepSeal, journal.StepReleaseAgain,
		journal.StepCreateCluster, journal.StepCreateVolumes, journal.StepBindVolumes, journal.StepFreezeScheduling,
		journal.StepFindAhead, journal.StepRecover, journal.StepAwaitLeaders,
		journal.IntentEarlyApply, journal.IntentLeases, journal.IntentSchedulers, journal.IntentLimits, journal.IntentCreateSnapshots, journal.IntentCreateVolumes, journal.IntentFastRestore, journal.IntentLeaveRecovery,
		journal.ResultBackupTS, journal.ResultSnapshots, journal.ResultVolume, journal.ResultFastRestoreEnded, journal.ResultEarlyApplyBack, journal.ResultStillHeld, journal.ResultServes, journal.ResultAhead, journal.ResultExpected, journal.ResultLeftRecovery, journal.ResultAvailable,
		journal.StepWriteSnapshots, journal.StepDeleteSnapshots, journal.IntentWriteSnapshots, journal.ResultPut,
	})
}

func TestReadAbout_FirstRecordIsNotOfARun_IsRefused(t *testing.T) {
	t.Parallel()
	got, err := journal.ReadAbout("r", phase.Record{Type: phase.RecordRun, Data: json.RawMessage(`{"operation":"restore","backup":"b","newer":1}`)})
	require.NoError(t, err)
	require.Equal(t, journal.About{Operation: journal.Restore, Backup: "b"}, got)
	for name, first := range map[string]phase.Record{
		"another record": {Type: phase.RecordBegin, Step: "lock", Data: json.RawMessage(`{"operation":"restore","backup":"b"}`)},
		"no data":        {Type: phase.RecordRun},
		"garbage":        {Type: phase.RecordRun, Data: json.RawMessage(`[`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := journal.ReadAbout("r", first)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
		})
	}
}

// A run is continued by the same request alone, and what differs is shown.
func TestSameRequest_ShowsTheDifference(t *testing.T) {
	t.Parallel()
	prod := cluster.Name{Namespace: "tidb", Name: "prod"}
	was := journal.About{Operation: journal.Restore, Cluster: prod, Backup: "b", Request: map[string]string{"volume-iops": "16000", "patch": "0a"}}
	for name, row := range map[string]struct {
		change     func(*journal.About)
		difference string // "" if it is the same
	}{
		"the same":           {func(*journal.About) {}, ""},
		"another version":    {func(a *journal.About) { a.Tool = "v2" }, ""},
		"another option":     {func(a *journal.About) { a.Request = map[string]string{"volume-iops": "7000", "patch": "0a"} }, `--volume-iops is "7000" and was "16000"`},
		"another file":       {func(a *journal.About) { a.Request = map[string]string{"volume-iops": "16000", "patch": "0b"} }, `--patch is "0b" and was "0a"`},
		"an option of later": {func(a *journal.About) { a.Request = map[string]string{"later": "x"} }, `--later is "x" and was ""`},
		"another cluster":    {func(a *journal.About) { a.Cluster.Name = "test" }, `the cluster is "tidb/test" and was "tidb/prod"`},
		"another backup":     {func(a *journal.About) { a.Backup = "c" }, `the backup is "c" and was "b"`},
		"another command": {
			func(a *journal.About) { a.Operation, a.Request = journal.Resolve, map[string]string{"patch": "0b"} },
			`of another request: the command is "resolve" and was "restore"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := was
			row.change(&other)
			err := was.SameRequest("r1", &other)
			if row.difference == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, row.difference)
			if other.Operation != was.Operation {
				require.NotContains(t, err.Error(), "--", "commands have other options")
			}
			require.Contains(t, failure.HintOf(err), "tisnap runs abort r1")
		})
	}
	old := was
	old.Request = nil
	require.ErrorContains(t, old.SameRequest("r1", &was), "an older version of tisnap made it")
}
