package gc

import (
	"context"
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
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/retention"
	"github.com/tisnap/tisnap/pkg/wait"
)

func keep400() Options { return Options{Rate: fast, KeepRuns: retention.Span{Days: 400}} }

// ended writes the journal of a run that asked EC2 for something and has ended; with an error if there is one.
func (p *place) ended(t *testing.T, id cluster.RunID, about journal.About, problem string, more ...phase.Record) {
	t.Helper()
	p.died(t, id, about)
	j := journal.NewStoreJournal(p.deps.Store, manifest.JournalPrefix(id))
	more = append(more, phase.Record{Type: phase.RecordIntent, Step: "cut", Name: journal.IntentCreateSnapshots}, phase.Record{Type: phase.RecordEnd, Error: problem})
	for i, r := range more {
		r.Seq, r.Run, r.Time = i+2, id, time.Now()
		require.NoError(t, j.Append(t.Context(), r))
	}
}

// later is 500 days later.
func later(t *testing.T) {
	t.Helper()
	require.NoError(t, wait.For(t.Context(), 500*24*time.Hour))
}

func backupOf(id cluster.BackupID) journal.About {
	return journal.About{Operation: journal.Backup, Cluster: prod, Backup: id, Region: region}
}

func operation(of journal.Operation) journal.About {
	return journal.About{Operation: of, Cluster: prod, Backup: "gone", Region: region}
}

func inKubernetes(uid string) journal.About {
	about := operation(journal.Restore)
	about.Kubernetes, about.KubernetesUID = "https://k", uid
	return about
}

// silent is a Kubernetes that does not report what restores left.
type silent struct{ kubernetes }

func (*silent) Leftover(context.Context, cluster.Name, cluster.RunID) (kube.RestoreLeftover, error) {
	return kube.RestoreLeftover{}, failure.New(failure.Denied, "list", "", "no permission")
}

// The journals of runs of which nothing is left go after their time. Each of the others is the only thing that explains
// something: what its run made, or may have made where it is not searched for now.
func TestCollect_JournalsOfOldRuns_GoUnlessSomethingIsLeft(t *testing.T) {
	t.Parallel()
	created := phase.Record{Type: phase.RecordBegin, Step: journal.StepCreateCluster}
	none := func(*testing.T, *place) {}
	dies := func(t *testing.T, p *place) { p.died(t, "x", backupOf("gone")) }
	ended := func(about journal.About, problem string) func(*testing.T, *place) {
		return func(t *testing.T, p *place) {
			p.ended(t, "x", about, problem)
		}
	}
	for name, row := range map[string]struct {
		make func(t *testing.T, p *place)
		then func(t *testing.T, p *place) // 500 days later
		want Action                       // "" is not even listed
	}{
		"a backup that is gone":  {ended(backupOf("gone"), ""), none, ActionDeleted},
		"a backup that failed":   {ended(backupOf("gone"), "no"), none, ActionDeleted},
		"a restore that is gone": {ended(operation(journal.Restore), ""), none, ActionDeleted},
		"a resolve":              {ended(operation(journal.Resolve), ""), none, ActionDeleted},
		"a younger one":          {none, ended(backupOf("gone"), ""), ""},
		"one that ended lately":  {dies, func(t *testing.T, p *place) { p.adds(t, "x", 3, phase.RecordEnd) }, ""},
		"one that did not end":   {dies, none, ActionKeep},
		"one that is damaged": {func(t *testing.T, p *place) {
			_, err := p.deps.Store.Create(t.Context(), manifest.JournalKey("x", 1), []byte("{"))
			require.NoError(t, err)
		}, none, ActionKeep},
		"its backup is there": {func(t *testing.T, p *place) {
			p.ended(t, "x", backupOf("y"), "")
			p.cut("x", "y", "snap-y")
			p.sealAs(t, "y", "x", "snap-y", time.Now())
			delete(p.ec2.snapshots["snap-y"].Tags, ebs.TagRun)
		}, none, ActionInUse},
		"the backup has another run": {func(t *testing.T, p *place) {
			p.ended(t, "x", backupOf("y"), "no")
			p.ended(t, "z", backupOf("y"), "")
			p.cut("z", "y", "snap-y")
			p.sealAs(t, "y", "z", "snap-y", time.Now())
		}, none, ActionDeleted},
		"its snapshot is locked": {func(t *testing.T, p *place) {
			p.ended(t, "x", backupOf("gone"), "no")
			p.cut("x", "gone", "snap-x")
			p.ec2.locks = []ebs.SnapshotLock{{Snapshot: "snap-x", Mode: "compliance"}}
		}, none, ActionInUse},
		"its volume is attached": {func(t *testing.T, p *place) {
			p.ended(t, "x", operation(journal.Restore), "")
			p.ec2.volumes = []ebs.Volume{{ID: "vol-x", Instance: "i-1", State: ebs.VolumeInUse, Tags: ebs.Tags{ebs.TagRun: "x"}}}
		}, none, ActionInUse},
		"it is of another region": {func(t *testing.T, p *place) {
			about := backupOf("gone")
			about.Region = "eu-west-1"
			p.ended(t, "x", about, "no")
		}, none, ActionKeep},
		"its region is unknown": {func(t *testing.T, p *place) {
			about := backupOf("gone")
			about.Region = ""
			p.ended(t, "x", about, "no")
		}, none, ActionKeep},
		"it asked EC2 for nothing": {func(t *testing.T, p *place) {
			p.died(t, "x", journal.About{Operation: journal.Backup, Cluster: prod, Backup: "gone"})
			p.adds(t, "x", 3, phase.RecordEnd)
		}, none, ActionDeleted},
		"this may be another account": {func(t *testing.T, p *place) {
			p.ended(t, "x", backupOf("gone"), "no")
			p.sealAs(t, "y", "z", "snap-elsewhere", time.Now())
		}, none, ActionKeep},
		"it may have left something in Kubernetes, which cannot be asked": {func(t *testing.T, p *place) {
			p.ended(t, "x", inKubernetes("uid-k"), "no", created)
		}, none, ActionKeep},
		"it may have left something in a Kubernetes that it did not note": {func(t *testing.T, p *place) {
			p.deps.Kube = func() (Kube, error) { return &kubernetes{}, nil }
			p.ended(t, "x", inKubernetes(""), "no", created)
		}, none, ActionKeep},
		"it may have left something in another Kubernetes": {func(t *testing.T, p *place) {
			p.deps.Kube = func() (Kube, error) { return &kubernetes{uid: "uid-other"}, nil }
			p.ended(t, "x", inKubernetes("uid-k"), "no", created)
		}, none, ActionKeep},
		"Kubernetes does not answer": {func(t *testing.T, p *place) {
			p.deps.Kube = func() (Kube, error) { return &silent{kubernetes{uid: "uid-k"}}, nil }
			p.ended(t, "x", inKubernetes("uid-k"), "no", created)
		}, none, ActionKeep},
		"it may have filled volumes in another Kubernetes": {func(t *testing.T, p *place) {
			p.deps.Kube = func() (Kube, error) { return &kubernetes{uid: "uid-other"}, nil }
			p.ended(t, "x", inKubernetes("uid-k"), "no", phase.Record{Type: phase.RecordBegin, Step: journal.StepFillVolumes})
		}, none, ActionKeep},
		"Kubernetes has something of it": {func(t *testing.T, p *place) {
			left := map[cluster.RunID]kube.RestoreLeftover{"x": {Claims: []string{"tikv-0"}, Serves: "it serves"}}
			p.deps.Kube = func() (Kube, error) { return &kubernetes{uid: "uid-k", left: left}, nil }
			p.ended(t, "x", inKubernetes("uid-k"), "no", created)
		}, none, ActionInUse},
		"Kubernetes has nothing of it": {func(t *testing.T, p *place) {
			p.deps.Kube = func() (Kube, error) { return &kubernetes{uid: "uid-k"}, nil }
			p.ended(t, "x", inKubernetes("uid-k"), "no", created)
		}, none, ActionDeleted},
		"it had the lock last": {func(t *testing.T, p *place) {
			p.ended(t, "x", backupOf("gone"), "")
			require.NoError(t, p.lock(t, "x").Release(t.Context()))
		}, none, ActionInUse},
		"it finished a restore that did not end": {func(t *testing.T, p *place) {
			p.died(t, "restore", operation(journal.Restore))
			p.ended(t, "x", operation(journal.Resolve), "")
		}, none, ActionKeep},
		"its restore goes too": {func(t *testing.T, p *place) {
			p.ended(t, "restore", operation(journal.Restore), "")
			p.ended(t, "x", operation(journal.Resolve), "")
		}, none, ActionDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t)
				row.make(t, p)
				later(t)
				row.then(t, p)
				before := p.records(t, "x")
				dry := keep400()
				dry.DryRun = true
				report, err := Collect(t.Context(), p.deps, dry)
				require.Contains(t, []failure.Kind{failure.Unknown, failure.Corrupt}, failure.KindOf(err), "%v", err) // nil is Unknown
				want := row.want
				if want == ActionDeleted {
					want = ActionDelete
				}
				require.Equal(t, want, journalAction(report, "x"), "dry run")
				require.Equal(t, before, p.records(t, "x"), "dry run")
				report, err = Collect(t.Context(), p.deps, keep400())
				require.Contains(t, []failure.Kind{failure.Unknown, failure.Corrupt}, failure.KindOf(err), "%v", err)
				require.Equal(t, row.want, journalAction(report, "x"))
				require.Equal(t, row.want == ActionDeleted, p.records(t, "x") == 0)
				require.NotEqual(t, ActionDeleted, journalAction(report, "r"), "its run left snapshots")
			})
		})
	}
}

// journalAction is what became of a run's journal.
func journalAction(r *Report, run cluster.RunID) Action {
	for _, i := range r.Items {
		if i.Kind == KindJournal && i.Run == run {
			return i.Action
		}
	}
	return ""
}

// What a dead run left goes first, and the run's journal stays until another gc finds that nothing is left.
func TestCollect_OldRunLeftSomething_ItsJournalIsDeletedAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.ended(t, "x", backupOf("gone"), "no")
		p.cut("x", "gone", "snap-x")
		later(t)
		report, err := Collect(t.Context(), p.deps, keep400())
		require.NoError(t, err)
		require.Equal(t, ActionDeleted, actions(report)["snap-x"])
		require.Equal(t, ActionInUse, journalAction(report, "x"))
		report, err = Collect(t.Context(), p.deps, keep400())
		require.NoError(t, err)
		require.Equal(t, ActionDeleted, journalAction(report, "x"))
	})
}

// Journals are kept for ever unless a time is given, by an abort too, and those of other clusters by a limited gc.
func TestCollect_JournalsThatAreNotAskedFor_Stay(t *testing.T) {
	t.Parallel()
	other := cluster.Name{Namespace: "tidb", Name: "other"}
	for name, o := range map[string]Options{
		"no time is given":  {Rate: fast},
		"of another run":    {Rate: fast, KeepRuns: retention.Span{Days: 1}, Only: "r"},
		"of other clusters": {Rate: fast, KeepRuns: retention.Span{Days: 1}, Of: []cluster.Name{other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t)
				p.ended(t, "x", backupOf("gone"), "")
				theirs := backupOf("gone")
				theirs.Cluster = other
				p.ended(t, "y", theirs, "", make([]phase.Record, 3)...)
				later(t)
				report, err := Collect(t.Context(), p.deps, o)
				require.NoError(t, err)
				require.Empty(t, journalAction(report, "x"))
				require.NotZero(t, p.records(t, "x"))
				require.Equal(t, len(o.Of) > 0, p.records(t, "y") == 0)
			})
		})
	}
}

// A limited gc compacts the journals of its clusters.
func TestCollect_LimitedToAnotherCluster_CompactsItsJournalsAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.died(t, "ended", backupOf("other"))
	p.adds(t, "ended", 9, phase.RecordEnd)
	other, err := Collect(t.Context(), p.deps, Options{Rate: fast, Of: []cluster.Name{{Namespace: "tidb", Name: "other"}}})
	require.NoError(t, err)
	require.Zero(t, other.Compacted)
	ours, err := Collect(t.Context(), p.deps, Options{Rate: fast, Of: []cluster.Name{prod}})
	require.NoError(t, err)
	require.Equal(t, 1, ours.Compacted)
	require.Equal(t, 2, p.records(t, "ended"))
}

// Between the plan and the deletion a run of the same id takes the lock, or the restore that a resolve has finished turns out
// to stay.
func TestSweep_JournalIsNeededByThen_Stays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.ended(t, "restore", operation(journal.Restore), "")
		p.ended(t, "resolve", operation(journal.Resolve), "")
		later(t)
		report, w, err := plan(t.Context(), p.deps, keep400())
		require.NoError(t, err)
		require.Equal(t, ActionDelete, journalAction(report, "restore"))
		require.Equal(t, ActionDelete, journalAction(report, "resolve"))
		p.lock(t, "restore")
		newSweep(p.deps, w, fast).removeJournals(t.Context(), report)
		require.Equal(t, ActionLeft, journalAction(report, "restore"))
		require.Equal(t, ActionKeep, journalAction(report, "resolve"))
		require.Equal(t, failure.Partial, failure.KindOf(report.undeleted()))
		require.Equal(t, 3, p.records(t, "restore"))
		require.Equal(t, 3, p.records(t, "resolve"))
	})
}
