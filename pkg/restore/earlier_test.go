package restore

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// history reads a journal of these records.
func history(t *testing.T, records ...phase.Record) *phase.History {
	t.Helper()
	h, err := phase.ReadHistory(t.Context(), kept(records))
	require.NoError(t, err)
	return h
}

// A cluster that someone else made under the name since the run died would get a mark, volumes and settings.
func TestFindTarget_ForeignCluster_IsRefused(t *testing.T) {
	t.Parallel()
	tc := kube.TidbCluster{Run: "another", Object: json.RawMessage(`{"metadata":{"uid":"new"}}`)}
	bind := phase.Record{Type: phase.RecordBegin, Step: journal.StepBindVolumes}
	made := func(data string) phase.Record {
		return phase.Record{Type: phase.RecordDone, Step: journal.StepCreateCluster, Data: json.RawMessage(data)}
	}
	for name, row := range map[string]struct {
		records []phase.Record
		refused bool
	}{
		"in the place of the run's own":   {[]phase.Record{made(`{}`)}, true},
		"in the place of a person's":      {[]phase.Record{made(`{"uid":"old"}`), bind}, true},
		"it is the one that was given":    {[]phase.Record{made(`{"uid":"new"}`), bind}, false},
		"an older version noted no given": {[]phase.Record{{Type: phase.RecordDone, Step: journal.StepCreateCluster}, bind}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(Deps{Kube: showing{tc: tc}, Store: objstoretest.NewMemory(nil)}, Options{}, byRun)
			r.earlier = readEarlier(history(t, row.records...), false)
			err := r.target.find(t.Context(), r.backup.Manifest, &r.earlier)
			if !row.refused {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.Contains(t, failure.HintOf(err), "runs abort")
		})
	}
}

// A cluster that has left recovery mode may serve, and hold newer data than the backup: a resumed run that fails keeps it.
func TestFindTarget_LeftRecoveryMode_IsKeptWhateverFails(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		started, recovering, asked bool
		kept                       bool
	}{
		"it has left recovery mode":          {started: true, kept: true},
		"it is in recovery mode":             {started: true, recovering: true},
		"TiKV was not started yet":           {},
		"the user keeps what a run has made": {started: true, recovering: true, asked: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deps := Deps{Kube: showing{tc: kube.TidbCluster{Run: "r", RecoveryMode: row.recovering}}}
			r := newRun(deps, Options{Run: "r", KeepOnFailure: row.asked}, byRun)
			r.target.started = row.started
			require.NoError(t, r.target.find(t.Context(), r.backup.Manifest, &r.earlier))
			require.Equal(t, row.kept, r.keeps())
		})
	}
}

func TestStartOver_OnlyWhatMayBeTakenAway(t *testing.T) {
	t.Parallel()
	undoing := history(t, phase.Record{Type: phase.RecordBegin, Step: "a"}, phase.Record{Type: phase.RecordUndo, Step: "a"})
	for name, row := range map[string]struct {
		run  *run
		want bool
	}{
		"it was to keep what it made":       {&run{earlier: earlier{keep: true}}, false},
		"the target has left recovery mode": {&run{target: target{leftRecovery: true}}, false},
		"else":                              {&run{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			why, err := row.run.startOver(t.Context(), undoing)
			require.NoError(t, err)
			require.Equal(t, row.want, why != "")
		})
	}
}

// Leaders may have been made, and which replicas were ahead before is unknown: fresh volumes are made.
func TestStartOver_ReplicasAheadNeverChecked(t *testing.T) {
	t.Parallel()
	began := func(steps ...string) (records []phase.Record) {
		for _, s := range append([]string{journal.StepLock}, steps...) {
			records = append(records, phase.Record{Type: phase.RecordBegin, Step: s}, phase.Record{Type: phase.RecordDone, Step: s})
		}
		return records
	}
	whole := began(stepStartTiKV, journal.StepRecover)
	looked, other := resolve.Progress{Run: "r", EarlyApply: &resolve.EarlyApply{}}, resolve.Progress{Run: "another"}
	unproven := &manifest.Manifest{EarlyApply: &manifest.EarlyApply{State: manifest.EarlyApplyUnproven}}
	for name, row := range map[string]struct {
		records []phase.Record
		saved   *resolve.Progress
		damage  bool
		change  func(*run)
		over    bool
		refused bool
	}{
		"an older version made leaders":      {records: whole, saved: &resolve.Progress{Run: "r"}, over: true},
		"what it wrote cannot be read":       {records: whole, damage: true, over: true},
		"what it wrote is gone":              {records: whole, over: true},
		"it has looked":                      {records: whole, saved: &looked},
		"the progress is of another cluster": {records: whole, saved: &other},
		"TiKV had not started":               {records: began(), saved: &resolve.Progress{Run: "r"}},
		"no leader was made yet":             {records: began(stepStartTiKV)},
		"the backup has ruled it out": {records: whole, change: func(r *run) {
			r.backup.Manifest = &manifest.Manifest{EarlyApply: &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}}
		}},
		"the target has left recovery mode":   {records: whole, change: func(r *run) { r.target.leftRecovery = true }},
		"it has served, and is gone":          {records: whole, change: func(r *run) { r.earlier.Served = true }},
		"it may have left recovery mode":      {records: whole, change: func(r *run) { r.earlier.LeftRecovery = &journal.LeftRecovery{} }},
		"it was to keep what it made":         {records: whole, change: func(r *run) { r.earlier.keep = true }, refused: true},
		"the target was made by someone else": {records: whole, change: func(r *run) { r.target.existing = true }, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			r := newRun(Deps{Store: store}, Options{Run: "r", Target: cluster.Name{Namespace: "tidb", Name: "copy"}, Backup: "b"}, byRun)
			r.backup.Manifest, r.opts.KeepOnFailure = unproven, true
			if row.saved != nil {
				require.NoError(t, r.target.progress().Save(t.Context(), *row.saved))
			}
			if row.damage {
				_, err := store.Create(t.Context(), manifest.ResolveKey(r.opts.Target, r.opts.Backup), []byte("{"))
				require.NoError(t, err)
			}
			if row.change != nil {
				row.change(r)
			}
			why, err := r.startOver(t.Context(), history(t, row.records...))
			require.Equal(t, row.over, why != "", why)
			require.Equal(t, row.over, !r.keepsOnFailure(), "the rest is undone all the same")
			require.Equal(t, row.refused, failure.Is(err, failure.Corrupt), "%v", err)
			require.Equal(t, row.refused, strings.Contains(failure.HintOf(err), "runs abort r"))
		})
	}
}

// A gc may delete volumes that nothing uses yet: TiKV would wait for them, and a claim that is bound to one for ever.
func TestStartOver_VolumesWereDeleted(t *testing.T) {
	t.Parallel()
	done := func(step, data string) []phase.Record {
		return []phase.Record{
			{Type: phase.RecordBegin, Step: step}, {Type: phase.RecordDone, Step: step, Data: json.RawMessage(data)},
		}
	}
	made := func(snapshot, volume string) phase.Record {
		return phase.Record{
			Type: phase.RecordResult, Name: journal.ResultVolume,
			Data: json.RawMessage(`{"snapshot":"` + snapshot + `","volume":"` + volume + `"}`),
		}
	}
	asking := []phase.Record{{Type: phase.RecordBegin, Step: journal.StepCreateVolumes}}
	created := done(journal.StepCreateVolumes, `{"snap-1":"vol-1","snap-2":"vol-2"}`)
	seen := slices.Concat(created, done(stepAwaitVolumes, ""))
	one := []ebs.Volume{{ID: "vol-1", State: ebs.VolumeAvailable}}
	for name, row := range map[string]struct {
		records []phase.Record
		found   []ebs.Volume
		keep    bool
		want    string
	}{
		"all are there":               {records: seen, found: []ebs.Volume{{ID: "vol-1", State: ebs.VolumeAvailable}, {ID: "vol-2", State: ebs.VolumeInUse}}},
		"one is gone":                 {records: seen, found: one, want: "1 of its 2 volumes were deleted"},
		"one was never shown":         {records: created, found: one, want: "1 of its 2 volumes were deleted"},
		"not all were made":           {records: append(asking, made("snap-1", "vol-0"), made("snap-2", "vol-1")), found: one, want: "1 of its 2 volumes were deleted"},
		"what was made is there":      {records: append(asking, made("snap-2", "vol-1")), found: one},
		"one was replaced":            {records: slices.Concat(done(journal.StepCreateVolumes, `{"snap-1":"vol-0"}`), []phase.Record{made("snap-1", "vol-1")}), found: one},
		"none was recorded":           {records: asking},
		"one is being deleted":        {records: seen, found: []ebs.Volume{{ID: "vol-1", State: ebs.VolumeAvailable}, {ID: "vol-2", State: ebs.VolumeDeleting}}, want: "1 of its 2 volumes were deleted"},
		"it was to keep what it made": {records: seen, keep: true, want: "what run r made is kept"},
		"TiKV may have started":       {records: slices.Concat(seen, done(stepStartTiKV, ""))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			excluded := &manifest.Manifest{EarlyApply: &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}}
			h := history(t, row.records...)
			r := newRun(Deps{EBS: &having{volumes: row.found}}, Options{Run: "r", Visibility: time.Nanosecond}, byRun)
			r.backup.Manifest, r.earlier = excluded, readEarlier(h, row.keep)
			why, err := r.startOver(t.Context(), h)
			if row.keep {
				require.Equal(t, failure.Corrupt, failure.KindOf(err))
				require.ErrorContains(t, err, row.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want != "", why != "", why)
			require.Contains(t, why, row.want)
		})
	}
}

// EC2 may hide a volume for a while after its creation, which is no reason to make all of them again.
func TestStartOver_VolumesAreHidden_AreAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		created := phase.Record{Type: phase.RecordDone, Step: journal.StepCreateVolumes, Data: json.RawMessage(`{"s":"v"}`)}
		h := history(t, phase.Record{Type: phase.RecordBegin, Step: journal.StepCreateVolumes}, created)
		ec2 := &having{volumes: []ebs.Volume{{ID: "v", State: ebs.VolumeCreating}}, from: time.Now().Add(20 * time.Second)}
		r := newRun(Deps{EBS: ec2}, Options{Run: "r"}, byRun)
		r.earlier = readEarlier(h, false)
		why, err := r.volumesGone(t.Context(), h)
		require.NoError(t, err)
		require.Empty(t, why)
	})
}

// having is an EC2 with these volumes.
type having struct {
	EBS

	volumes []ebs.Volume
	from    time.Time // when it shows them
}

func (h *having) DescribeVolumes(context.Context, []cluster.VolumeID) ([]ebs.Volume, error) {
	if time.Now().Before(h.from) {
		return nil, nil
	}
	return h.volumes, nil
}

// kept is a journal of these records.
type kept []phase.Record

func (kept) Append(_ context.Context, r phase.Record) error {
	return failure.New(failure.Conflict, "append", r.Step, "it is only read")
}

func (k kept) Records(context.Context) ([]phase.Record, error) { return k, nil }

// showing is a Kubernetes cluster with one TidbCluster.
type showing struct {
	kube.Restorer

	tc kube.TidbCluster
}

func (s showing) Cluster(context.Context, cluster.Name) (kube.TidbCluster, error) { return s.tc, nil }
