package journal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// facts reads these records, each of them a minute after the one before it.
func facts(records ...phase.Record) journal.Facts {
	for i := range records {
		records[i].Time = at(i)
	}
	return journal.ReadFacts(records)
}

func at(minute int) time.Time {
	return time.Date(2026, 11, 22, 10, minute, 0, 0, time.UTC)
}

func step(kind phase.RecordType, name string) phase.Record {
	return phase.Record{Type: kind, Step: name}
}

func intent(name, data string) phase.Record {
	return phase.Record{Type: phase.RecordIntent, Name: name, Data: json.RawMessage(data)}
}

func result(name string) phase.Record { return phase.Record{Type: phase.RecordResult, Name: name} }

// with is the record with data.
func with(r phase.Record, data string) phase.Record {
	r.Data = json.RawMessage(data)
	return r
}

func TestReadFacts_OfARun(t *testing.T) {
	t.Parallel()
	require.Equal(t, journal.Facts{}, journal.ReadFacts(nil))
	end := phase.Record{Type: phase.RecordEnd, Error: "no"}
	f := facts(step(phase.RecordBegin, journal.StepLock), end)
	require.Equal(t, journal.Facts{Began: at(0), Last: at(1), Ended: true, Error: "no"}, f)
	f = facts(step(phase.RecordDone, journal.StepLock), end, step(phase.RecordResumed, ""))
	require.True(t, f.Locked)
	require.False(t, f.Ended, "it was resumed")
	require.Empty(t, f.Error)
	for _, name := range []string{journal.IntentCreateSnapshots, journal.IntentCreateVolumes, journal.IntentFastRestore} {
		require.True(t, facts(intent(name, `{}`)).AskedEC2, name)
	}
	require.False(t, facts(intent(journal.IntentSchedulers, `[]`)).AskedEC2)
	f = facts(with(result(journal.ResultExpected), `1`), with(result(journal.ResultExpected), `2`))
	require.JSONEq(t, `1`, string(f.Expected), "the first process announced it")
}

// What a run holds of its cluster is released by the end of a step, or by its undo; some ends release nothing.
func TestReadFacts_Held(t *testing.T) {
	t.Parallel()
	hold := []phase.Record{
		step(phase.RecordBegin, journal.StepHold),
		intent(journal.IntentSchedulers, `["a","b"]`), intent(journal.IntentLimits, `["l"]`),
	}
	still := result(journal.ResultStillHeld)
	for name, row := range map[string]struct {
		then []phase.Record
		held bool
	}{
		"begun":                  {nil, true},
		"released":               {[]phase.Record{step(phase.RecordDone, journal.StepRelease)}, false},
		"undone":                 {[]phase.Record{step(phase.RecordUndone, journal.StepHold)}, false},
		"the release is undone":  {[]phase.Record{step(phase.RecordUndone, journal.StepRelease)}, true},
		"still held":             {[]phase.Record{still, step(phase.RecordDone, journal.StepRelease)}, true},
		"still held, and undone": {[]phase.Record{still, step(phase.RecordUndone, journal.StepRelease)}, false},
		"released again": {
			[]phase.Record{still, step(phase.RecordDone, journal.StepRelease), step(phase.RecordDone, journal.StepReleaseAgain)}, false,
		},
		"held again": {[]phase.Record{step(phase.RecordUndone, journal.StepHold), hold[0], hold[1], hold[2]}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(append(append([]phase.Record{}, hold...), row.then...)...).Backup
			require.Equal(t, row.held, f.Held)
			want := journal.Paused{}
			if row.held {
				want = journal.Paused{Schedulers: []string{"a", "b"}, Limits: []string{"l"}}
			}
			require.Equal(t, want, f.Pausing)
			require.Subset(t, f.Paused.Schedulers, []string{"a", "b"}, "whatever was released since")
			require.False(t, f.Unclear)
		})
	}
	require.True(t, facts(hold[0], intent(journal.IntentLimits, `7`)).Backup.Unclear)
	require.True(t, facts(hold[0], intent(journal.IntentSchedulers, ``)).Backup.Unclear)
	require.True(t, facts(still).Backup.StillHeld)
}

func TestReadFacts_Holds(t *testing.T) {
	t.Parallel()
	begin := step(phase.RecordBegin, journal.StepHold)
	leases := intent(journal.IntentLeases, `{"leaseSeconds":30,"maxHoldSeconds":120}`)
	f := facts(step(phase.RecordBegin, journal.StepConnect), begin, leases, step(phase.RecordBegin, journal.StepConnect), begin)
	require.Equal(t, 2, f.Backup.Attempts)
	known := journal.Leases{LeaseSeconds: 30, MaxHoldSeconds: 120}
	require.Equal(t, []journal.Hold{{Began: at(1), Leases: known, LeasesAt: at(2)}, {Began: at(4)}}, f.Backup.Holds)
	for _, data := range []string{`[]`, ``, `{"leaseSeconds":30}`, `{"maxHoldSeconds":120}`} {
		require.Equal(t, []journal.Hold{{Began: at(0)}}, facts(begin, intent(journal.IntentLeases, data)).Backup.Holds, data)
	}
}

func TestReadFacts_EarlyApply(t *testing.T) {
	t.Parallel()
	off := intent(journal.IntentEarlyApply, `[{"store":2,"limit":9},{"store":1,"limit":8}]`)
	again := intent(journal.IntentEarlyApply, `[{"store":2,"limit":0},{"store":3,"limit":7}]`)
	want := []earlyapply.Setting{{Store: 1, Limit: 8}, {Store: 2, Limit: 9}, {Store: 3, Limit: 7}}
	require.Equal(t, want, facts(off, again, intent(journal.IntentEarlyApply, `7`)).Backup.EarlyApply, "the first one is the configured limit")
	require.Empty(t, facts(off, again, result(journal.ResultEarlyApplyBack)).Backup.EarlyApply)
}

func TestReadFacts_Cuts(t *testing.T) {
	t.Parallel()
	cut := intent(journal.IntentCreateSnapshots, `{}`)
	cut.Step = journal.StepCut
	first := journal.Cut{Asked: at(0), Ended: at(0), Requests: json.RawMessage(`{}`)}
	require.Equal(t, []journal.Cut{first}, facts(cut).Backup.Cuts)
	f := facts(cut, step(phase.RecordFailed, journal.StepCut), step(phase.RecordUndone, journal.StepCut),
		cut, step(phase.RecordDone, journal.StepHoldGC), step(phase.RecordDone, journal.StepCut))
	first.Ended, first.Undone = at(1), true
	require.Equal(t, []journal.Cut{first, {Asked: at(3), Ended: at(5), Requests: json.RawMessage(`{}`)}}, f.Backup.Cuts)
	proven := with(step(phase.RecordDone, journal.StepRelease), `{"source":{"topology":{"clusterID":7}}}`)
	f = facts(proven, step(phase.RecordDone, journal.StepRelease), step(phase.RecordDone, journal.StepSeal), step(phase.RecordUndo, journal.StepSeal))
	require.EqualValues(t, 7, f.Backup.ProvenOf)
	require.True(t, f.Backup.Sealed)
	require.Zero(t, facts(with(step(phase.RecordDone, journal.StepRelease), `{}`)).Backup.ProvenOf)
}

func TestReadFacts_Restore(t *testing.T) {
	t.Parallel()
	made := step(phase.RecordDone, journal.StepCreateCluster)
	fast := intent(journal.IntentFastRestore, `{"snapshots":["snap-1"],"zones":["a"]}`)
	volumes := func(epoch int64) phase.Record {
		r := intent(journal.IntentCreateVolumes, ``)
		r.Epoch = epoch
		return r
	}
	again := phase.Record{Type: phase.RecordRetryGroup, Data: json.RawMessage(`[]`)}
	for name, row := range map[string]struct {
		records []phase.Record
		want    journal.RestoreFacts
	}{
		"it made the target":           {[]phase.Record{with(made, `{}`)}, journal.RestoreFacts{Made: true}},
		"it was given one":             {[]phase.Record{with(made, `{"uid":"u"}`)}, journal.RestoreFacts{Given: journal.GivenTarget{UID: "u"}}},
		"a version that noted nothing": {[]phase.Record{made}, journal.RestoreFacts{}},
		"the target is deleted":        {[]phase.Record{with(made, `{}`), step(phase.RecordUndone, journal.StepCreateCluster)}, journal.RestoreFacts{}},
		"it may have made the target":  {[]phase.Record{step(phase.RecordBegin, journal.StepCreateCluster)}, journal.RestoreFacts{Target: true}},
		"it may have filled volumes":   {[]phase.Record{step(phase.RecordBegin, journal.StepFillVolumes)}, journal.RestoreFacts{Target: true}},
		"it may have bound volumes":    {[]phase.Record{step(phase.RecordBegin, journal.StepBindVolumes)}, journal.RestoreFacts{Target: true, Bound: true}},
		"it may have handed volumes":   {[]phase.Record{step(phase.RecordBegin, journal.StepHandOver)}, journal.RestoreFacts{Bound: true}},
		"what was bound stays, undone": {[]phase.Record{step(phase.RecordBegin, journal.StepHandOver), step(phase.RecordUndone, journal.StepHandOver)}, journal.RestoreFacts{Bound: true}},
		"fast restore":                 {[]phase.Record{fast}, journal.RestoreFacts{Fast: &journal.FastRestore{Snapshots: []cluster.SnapshotID{"snap-1"}, Zones: []cluster.Zone{"a"}}}},
		"fast restore, disabled":       {[]phase.Record{fast, result(journal.ResultFastRestoreEnded)}, journal.RestoreFacts{Fast: &journal.FastRestore{}}},
		"the first process asked":      {[]phase.Record{volumes(1), volumes(2)}, journal.RestoreFacts{VolumesEpoch: 1}},
		"a volume was replaced": {[]phase.Record{
			with(result(journal.ResultVolume), `{"snapshot":"s","volume":"v-1"}`), with(result(journal.ResultVolume), `{"snapshot":"s","volume":"v-2"}`),
		}, journal.RestoreFacts{Volumes: map[cluster.SnapshotID]cluster.VolumeID{"s": "v-2"}}},
		"it began from scratch, without": {[]phase.Record{with(result(journal.ResultVolume), `{"snapshot":"s","volume":"v"}`), again}, journal.RestoreFacts{Restarts: 1}},
		"it began from scratch":          {[]phase.Record{volumes(1), again}, journal.RestoreFacts{Restarts: 1}},
		"it began from scratch, and ask": {[]phase.Record{volumes(1), again, volumes(2)}, journal.RestoreFacts{Restarts: 1, VolumesEpoch: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, facts(row.records...).Restore)
		})
	}
	require.Error(t, facts(intent(journal.IntentFastRestore, `7`), fast).Restore.FastUnclear)
}

func TestReadFacts_Resolve(t *testing.T) {
	t.Parallel()
	left := intent(journal.IntentLeaveRecovery, `{"clusterID":"7","regions":{"total":6,"unchanged":4,"flashed":2}}`)
	f := facts(left).Resolve
	require.True(t, f.HasLeft(7))
	require.False(t, f.HasLeft(8))
	require.Equal(t, journal.ResolvedRegions{Total: 6, Unchanged: 4, Flashed: 2}, f.Regions())
	f = facts(with(result(journal.ResultLeftRecovery), `{"clusterID":"7"}`)).Resolve
	require.True(t, f.HasLeft(7), "of an older version")
	f = facts(intent(journal.IntentLeaveRecovery, `7`)).Resolve
	require.NotNil(t, f.LeftRecovery)
	require.False(t, f.HasLeft(0), "of which cluster is unknown")
	f = facts(left, phase.Record{Type: phase.RecordRetryGroup}).Resolve
	require.Nil(t, f.LeftRecovery, "it begins from scratch")
	require.Zero(t, f.Regions())
	require.True(t, facts(step(phase.RecordDone, journal.StepAwaitLeaders)).Resolve.Served)
	require.True(t, facts(result(journal.ResultServes)).Resolve.Served)
	require.False(t, facts(step(phase.RecordBegin, journal.StepAwaitLeaders)).Resolve.Served)
}

func TestReadFacts_OfACopy(t *testing.T) {
	t.Parallel()
	f := facts(intent(journal.IntentShare, `["s1"]`), intent(journal.IntentShare, `[]`),
		intent(journal.IntentCopySnapshots, `["s1","s2"]`), intent(journal.IntentCopySnapshots, `["s3"]`),
		with(result(journal.ResultCopy), `{"snapshot":"s1","copy":"c1"}`), with(result(journal.ResultCopy), `{"snapshot":"s1","copy":"c2","volume":"v1","over":"r/a"}`),
		with(result(journal.ResultCopied), `{"snapshot":"s1","copy":"c1"}`)).Copy
	require.Equal(t, journal.CopyFacts{
		Shares: true, Shared: []cluster.SnapshotID{}, Asked: map[cluster.SnapshotID]bool{"s1": true, "s2": true, "s3": true},
		Made:      map[cluster.SnapshotID]journal.CopiedSnapshot{"s1": {Snapshot: "s1", Copy: "c2", Volume: "v1", Over: "r/a"}},
		Completed: map[cluster.SnapshotID]journal.CopiedSnapshot{"s1": {Snapshot: "s1", Copy: "c1"}},
	}, f)
	for _, bad := range []phase.Record{
		intent(journal.IntentShare, `7`), intent(journal.IntentCopySnapshots, `{}`), with(result(journal.ResultCopy), `[]`), with(result(journal.ResultCopied), `[]`),
	} {
		require.Error(t, facts(bad, intent(journal.IntentShare, `[]`)).Copy.Unclear, bad.Name)
	}
}

func TestReadFacts_OfAnArchive(t *testing.T) {
	t.Parallel()
	segment := func(data string) phase.Record { return with(result(journal.ResultSegment), data) }
	f := facts(segment(`0`), intent(journal.IntentPacks, `1`), segment(`2`), segment(`3`), intent(journal.IntentPacks, `4`))
	require.Equal(t, []journal.ArchiveProcess{
		{Packs: json.RawMessage(`1`), Segments: []json.RawMessage{json.RawMessage(`2`), json.RawMessage(`3`)}},
		{Packs: json.RawMessage(`4`)},
	}, f.Archive, "what precedes the first process is no process's")
}
