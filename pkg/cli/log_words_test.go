package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// The log reads as what happened, not as the journal's records; what has no words of its own is named.
func TestLogWords_DescribeRecords(t *testing.T) {
	t.Parallel()
	data := func(v any) json.RawMessage {
		d, err := json.Marshal(v)
		require.NoError(t, err)
		return d
	}
	var l logWords
	var got []string
	for i, r := range []phase.Record{
		{Type: phase.RecordRun, Run: "r", Data: data(journal.About{Operation: journal.Backup, Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, Backup: "b"})},
		{Type: phase.RecordBegin, Step: "cut"},
		{Type: phase.RecordIntent, Step: "cut", Name: journal.IntentCreateSnapshots, Data: data(map[cluster.StoreID]ebs.CutRequest{1: {Volumes: []cluster.VolumeID{"vol-1", "vol-2"}}, 2: {Volumes: []cluster.VolumeID{"vol-3"}}})},
		{Type: phase.RecordResult, Step: "cut", Name: journal.ResultSnapshots, Data: data([]string{"snap-1", "snap-2"})},
		{Type: phase.RecordResumed},
		{Type: phase.RecordIntent, Step: "create-volumes", Name: journal.IntentCreateVolumes, Data: data([]*volumes.Volume{{Store: 3, Role: cluster.RoleData, Snapshot: "snap-1"}, {Store: 4, Snapshot: "snap-2"}})},
		{Type: phase.RecordResult, Step: "create-volumes", Name: journal.ResultVolume, Data: data(journal.Volume{Snapshot: "snap-1", Volume: "vol-9"})},
		{Type: phase.RecordResult, Step: "create-volumes", Name: journal.ResultVolume, Data: data(journal.Volume{Snapshot: "snap-2", Volume: "vol-8"})},
		{Type: phase.RecordResult, Step: "await-volumes", Name: journal.ResultAvailable, Data: data([]string{"vol-9"})},
		{Type: phase.RecordResult, Step: "await-volumes", Name: journal.ResultAvailable, Data: data([]string{"vol-9", "vol-8"})},
		{Type: phase.RecordDone, Step: "create-volumes", Seconds: 3},
		{Type: phase.RecordResult, Step: "later", Name: "some-thing", Data: data(1)},
		{Type: phase.RecordIntent, Step: "hold", Name: journal.IntentLimits, Data: data(1)},
		{Type: phase.RecordFailed, Step: "seal", Error: "no answer"},
		{Type: phase.RecordUndone, Step: "seal"},
		{Type: phase.RecordEnd},
	} {
		r.Time = time.Unix(int64(20*i), 0)
		got = append(got, l.of(&r)...)
	}
	require.Equal(t, strings.Split(`run r: backup of tidb/prod, backup b
step cut: begins
asks EC2 for 3 snapshots on 2 instances
EC2 started snapshots: snap-1, snap-2
resumed by process 2
asks EC2 for 2 volumes
store 3: volume vol-9 from snap-1, which EC2 is making
store 4: volume vol-8 from snap-2, which EC2 is making
store 3: volume vol-9 from snap-1, available after 40s
store 4: volume vol-8 from snap-2, available after 40s
step create-volumes: done in 3s
step later: some thing
step hold: lower limits
step seal: failed: no answer
step seal: undone
the run has ended`, "\n"), got)
}

// No intent or result is shown by its name alone.
func TestLogWords_HaveEachNameOfTheJournal(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../journal/names.go")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\s+((?:Intent|Result)\w+) += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(found), 20)
	for _, m := range found {
		if _, ok := effects()[m[2]]; !ok {
			require.Equal(t, journal.ResultAvailable, m[2], "%s has no words", m[1])
		}
	}
	for want, r := range map[string]phase.Record{
		"stored one more segment of volume 3":                    {Name: journal.ResultSegment, Data: []byte(`{"volume":2,"name":"00"}`)},
		"writes 6 snapshots from archive a1":                     {Name: journal.IntentWriteSnapshots, Data: []byte(`{"archive":"a1","snapshots":6}`)},
		"snapshot snap-1 has the first 4 segments of its volume": {Name: journal.ResultPut, Data: []byte(`{"snapshot":"snap-1","segments":4}`)},
		"asks EC2 for copies of snapshots: snap-1, snap-2":       {Name: journal.IntentCopySnapshots, Data: []byte(`["snap-1","snap-2"]`)},
		"EC2 has completed copy snap-9 of snapshot snap-1":       {Name: journal.ResultCopied, Data: []byte(`{"snapshot":"snap-1","copy":"snap-9"}`)},
		"EC2 copies snapshot snap-1 to snap-9":                   {Name: journal.ResultCopy, Data: []byte(`{"snapshot":"snap-1","copy":"snap-9"}`)},
	} {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			r.Type = phase.RecordResult
			require.Equal(t, []string{want}, new(logWords).of(&r))
		})
	}
}

// The log shows how long a cluster was held: up to its release, or to the end of an undone hold.
func TestLogWords_ReportHowLongTheHoldWas(t *testing.T) {
	t.Parallel()
	step := func(of phase.RecordType, name string) phase.Record { return phase.Record{Type: of, Step: name} }
	leases := phase.Record{Type: phase.RecordIntent, Step: journal.StepHold, Name: journal.IntentLeases, Data: []byte(`{}`)}
	left := phase.Record{Type: phase.RecordResult, Step: journal.StepRelease, Name: journal.ResultStillHeld, Data: []byte(`"no answer"`)}
	released, again := step(phase.RecordDone, journal.StepRelease), step(phase.RecordDone, journal.StepReleaseAgain)
	for name, row := range map[string]struct {
		records []phase.Record
		want    string
	}{
		"released":       {[]phase.Record{leases, released, again}, "2s"},
		"released later": {[]phase.Record{leases, left, released, again}, "6s"},
		"undone":         {[]phase.Record{leases, step(phase.RecordUndone, journal.StepHold), released}, "2s"},
		"held again":     {[]phase.Record{leases, leases, released}, "2s"},
		"never held":     {[]phase.Record{released, again}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l logWords
			var got []string
			for i, r := range row.records {
				r.Time = time.Unix(int64(2*i), 0)
				for _, line := range l.of(&r) {
					if after, ok := strings.CutPrefix(line, "the cluster is released, after a hold of "); ok {
						got = append(got, after)
					}
				}
			}
			require.Equal(t, row.want, strings.Join(got, " and "))
		})
	}
}
