package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// The log reads as what happened, not as the journal's records; what has no words of its own is named.
func TestLogWords_SayWhatHappened(t *testing.T) {
	t.Parallel()
	data := func(v any) json.RawMessage {
		d, err := json.Marshal(v)
		require.NoError(t, err)
		return d
	}
	var l logWords
	var got []string
	for _, r := range []phase.Record{
		{Type: phase.RecordRun, Run: "r", Data: data(journal.About{Operation: journal.Backup, Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, Backup: "b"})},
		{Type: phase.RecordBegin, Step: "cut"},
		{Type: phase.RecordIntent, Step: "cut", Name: journal.IntentCreateSnapshots, Data: data(map[cluster.StoreID]ebs.CutRequest{1: {Volumes: []cluster.VolumeID{"vol-1", "vol-2"}}, 2: {Volumes: []cluster.VolumeID{"vol-3"}}})},
		{Type: phase.RecordResult, Step: "cut", Name: journal.ResultSnapshots, Data: data([]string{"snap-1", "snap-2"})},
		{Type: phase.RecordResumed},
		{Type: phase.RecordIntent, Step: "create-volumes", Name: journal.IntentCreateVolumes, Data: data([]*volumes.Volume{{Store: 3, Role: cluster.RoleData, Snapshot: "snap-1"}, {Store: 4, Snapshot: "snap-2"}})},
		{Type: phase.RecordResult, Step: "create-volumes", Name: journal.ResultVolume, Data: data(journal.Volume{Snapshot: "snap-1", Volume: "vol-9"})},
		{Type: phase.RecordDone, Step: "create-volumes", Seconds: 3},
		{Type: phase.RecordResult, Step: "later", Name: "some-thing", Data: data(1)},
		{Type: phase.RecordIntent, Step: "hold", Name: journal.IntentLimits, Data: data(1)},
		{Type: phase.RecordFailed, Step: "seal", Error: "no answer"},
		{Type: phase.RecordUndone, Step: "seal"},
		{Type: phase.RecordEnd},
	} {
		got = append(got, l.of(&r))
	}
	require.Equal(t, strings.Split(`run r: backup of tidb/prod, backup b
step cut: begins
asks EC2 for 3 snapshots on 2 instances
EC2 started snapshots: snap-1, snap-2
resumed by process 2
asks EC2 for 2 volumes
store 3: volume vol-9 from snap-1
step create-volumes: done in 3s
step later: some thing
step hold: lower limits
step seal: failed: no answer
step seal: undone
the run has ended`, "\n"), got)
}
