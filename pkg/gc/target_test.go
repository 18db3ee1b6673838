package gc

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/retention"
	"github.com/tisnap/tisnap/pkg/runlock"
)

var copied = cluster.Name{Namespace: "tidb", Name: "copy"}

// kubernetes is a Kubernetes cluster in which restores left something.
type kubernetes struct {
	uid      string
	mu       sync.Mutex
	left     map[cluster.RunID]kube.RestoreLeftover
	strays   []kube.Stray
	absent   bool
	claims   map[string]string // of the namespace, to their persistent volumes
	refuse   error
	onDelete func()
}

func (k *kubernetes) Server() string                             { return "https://k" }
func (k *kubernetes) ClusterUID(context.Context) (string, error) { return k.uid, nil }

func (k *kubernetes) Handles(context.Context) (map[cluster.VolumeID]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[cluster.VolumeID]string{}
	for _, l := range k.left {
		for i, id := range l.Handles {
			out[id] = l.Volumes[i]
		}
	}
	return out, nil
}

func (k *kubernetes) Leftover(_ context.Context, name cluster.Name, run cluster.RunID) (kube.RestoreLeftover, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.left[run]
	l.Cluster, l.Run, l.Strays, l.Absent, l.Bound = name, run, k.strays, k.absent || len(k.strays) > 0, k.claims
	return l, nil
}

func (k *kubernetes) DeleteLeftover(_ context.Context, found kube.RestoreLeftover) error {
	if k.onDelete != nil {
		k.onDelete()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != nil {
		return k.refuse
	}
	delete(k.left, found.Run)
	return nil
}

// killed adds a restore "v" of backup "b" into tidb/copy that was killed an hour ago, with a TidbCluster, a claim, a PV
// and its volume.
func (p *place) killed(t *testing.T) *kubernetes {
	t.Helper()
	p.died(t, "v", journal.About{
		Operation: journal.Restore, Cluster: copied, Backup: "b", Kubernetes: "https://k", KubernetesUID: "uid-k",
	})
	p.record(t, "v", 2, phase.Record{Type: phase.RecordBegin, Step: journal.StepBindVolumes})
	p.ec2.volumes = []ebs.Volume{{ID: "vol-1", State: ebs.VolumeAvailable, Tags: ebs.Tags{ebs.TagRun: "v", ebs.TagCluster: copied.String()}}}
	k := &kubernetes{uid: "uid-k", left: map[cluster.RunID]kube.RestoreLeftover{"v": {
		UID: "tc-1", Claims: []string{"tikv-copy-tikv-0"}, Volumes: []string{"pv-1"}, Handles: []cluster.VolumeID{"vol-1"},
	}}}
	p.deps.Kube = func() (Kube, error) { return k, nil }
	p.deps.Owner = runlock.Owner{Run: "gc-1", Host: "h", PID: 2, Command: "gc"}
	return k
}

func (p *place) record(t *testing.T, run cluster.RunID, seq int, r phase.Record) {
	t.Helper()
	r.Seq, r.Run, r.Time = seq, run, time.Now().Add(-time.Hour)
	require.NoError(t, journal.NewStoreJournal(p.deps.Store, manifest.JournalPrefix(run)).Append(t.Context(), r))
}

// resolved adds a resolve "x" of tidb/copy.
func (p *place) resolved(t *testing.T, then ...phase.Record) {
	t.Helper()
	p.died(t, "x", journal.About{Operation: journal.Resolve, Cluster: copied, Backup: "b"})
	for i, r := range then {
		p.record(t, "x", i+2, r)
	}
}

func of(r *Report, run cluster.RunID) map[string]Action {
	out := map[string]Action{}
	for _, i := range r.Items {
		if i.Run == run {
			out[i.ID] = i.Action
		}
	}
	return out
}

func all(a Action) map[string]Action {
	return map[string]Action{"tidb/copy": a, "tidb/tikv-copy-tikv-0": a, "pv-1": a, "vol-1": a}
}

// What a killed restore left in Kubernetes is listed with its run; only --cluster deletes it, and then its volume.
func TestCollect_TargetOfAKilledRestore_IsListedAndDeletedWithCluster(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := p.killed(t)
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, all(ActionKeep), of(report, "v"))
	require.Contains(t, reasons(report), "tisnap restore abort v")
	require.Len(t, k.left, 1)

	report, err = Collect(t.Context(), p.deps, Options{Rate: fast, Clusters: true, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, all(ActionDelete), of(report, "v"))
	require.Len(t, k.left, 1)

	locked := false
	k.onDelete = func() {
		lock, _, err := runlock.Read(t.Context(), p.deps.Store, copied)
		locked = err == nil && lock.Held(time.Now()) && lock.Owner.Run == "gc-1"
	}
	report, err = Collect(t.Context(), p.deps, Options{Rate: fast, Clusters: true})
	require.NoError(t, err)
	require.Equal(t, all(ActionDeleted), of(report, "v"))
	require.True(t, locked, "no resolve begins with it meanwhile")
	require.Empty(t, k.left)
	require.Empty(t, p.ec2.volumes)
	lock, _, err := runlock.Read(t.Context(), p.deps.Store, copied)
	require.NoError(t, err)
	require.True(t, lock.Released)
}

func reasons(r *Report) string {
	out := ""
	for _, i := range r.Items {
		out += i.Reason + "\n"
	}
	return out
}

// A target stays, whole and with its volumes, as long as it may serve or someone may work on it.
func TestCollect_EachDoubtAboutATarget_KeepsItWithItsVolumes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*testing.T, *place, *kubernetes)
		want   Action
	}{
		"it serves": {func(_ *testing.T, _ *place, k *kubernetes) {
			l := k.left["v"]
			l.Serves = "it is not in recovery mode"
			k.left["v"] = l
		}, ActionKeep},
		"its run served": {func(t *testing.T, p *place, _ *kubernetes) {
			p.record(t, "v", 3, phase.Record{Type: phase.RecordDone, Step: journal.StepAwaitLeaders})
		}, ""},
		"its run is alive": {func(t *testing.T, p *place, _ *kubernetes) { p.lockOf(t, copied, "v") }, ActionInUse},
		"a resolve has it": {func(t *testing.T, p *place, _ *kubernetes) {
			p.resolved(t)
			p.lockOf(t, copied, "x")
		}, ActionInUse},
		"a resolve finished it": {func(t *testing.T, p *place, _ *kubernetes) {
			p.resolved(t, phase.Record{Type: phase.RecordDone, Step: journal.StepAwaitLeaders})
		}, ActionKeep},
		"another restore has the name": {func(t *testing.T, p *place, _ *kubernetes) { p.lockOf(t, copied, "w") }, ActionInUse},
		"made in another Kubernetes":   {func(_ *testing.T, _ *place, k *kubernetes) { k.uid = "uid-2" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			k := p.killed(t)
			row.change(t, p, k)
			report, err := Collect(t.Context(), p.deps, Options{Rate: fast, Clusters: true})
			require.NoError(t, err)
			got := of(report, "v")
			require.NotContains(t, got, ActionDeleted)
			if row.want != "" {
				require.Equal(t, row.want, got["tidb/copy"], reasons(report))
			}
			require.Contains(t, []Action{ActionKeep, ActionInUse}, got["vol-1"], reasons(report))
			require.Len(t, k.left, 1)
			require.Len(t, p.ec2.volumes, 1)
		})
	}
}

// Between the plan and the lock a resolve finishes the cluster.
func TestRemoveTarget_ServesByNow_Stays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := p.killed(t)
	report, w, err := plan(t.Context(), p.deps, Options{Clusters: true})
	require.NoError(t, err)
	l := k.left["v"]
	l.Serves = "TiDB runs in it"
	k.left["v"] = l
	require.True(t, newSweep(p.deps, w, fast).removeTargets(t.Context(), report))
	require.ErrorContains(t, report.undeleted(), "TiDB runs in it")
	require.Len(t, k.left, 1)
}

func TestAbort_KilledRestore_NothingIsLeftOfItAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := p.killed(t)
	report, err := Abort(t.Context(), p.deps, AbortOptions{Run: "v", Rate: fast})
	require.NoError(t, err)
	require.Equal(t, all(ActionDeleted), of(report, "v"))
	require.Empty(t, k.left)
	require.Empty(t, p.ec2.volumes)
	require.Len(t, p.ec2.ids(), 2, "what another dead run left is not its business")
	report, err = Abort(t.Context(), p.deps, AbortOptions{Run: "v", Rate: fast})
	require.NoError(t, err)
	require.Empty(t, report.Items)
}

// A restore whose volumes Jobs filled is undone without AWS, which need not be there, unless it asked EC2 for something.
func TestAbort_VolumesWereFilled_EC2IsNotAsked(t *testing.T) {
	t.Parallel()
	errNoAWS := errors.New("there is no AWS")
	for name, row := range map[string]struct {
		via  string
		cuts bool
		want error
	}{
		"filled":                {journal.ViaVolumes, false, nil},
		"filled, and asked EC2": {journal.ViaVolumes, true, errNoAWS},
		"made of EBS snapshots": {"snapshots", false, errNoAWS},
		"of an earlier version": {"", false, errNoAWS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			k := p.killed(t)
			k.left["f"] = kube.RestoreLeftover{UID: "tc-2", Claims: []string{"tisnap-f"}, Volumes: []string{"pv-2"}}
			p.died(t, "f", journal.About{
				Operation: journal.Restore, Cluster: copied, Backup: "b", Kubernetes: "https://k", KubernetesUID: "uid-k",
				Request: map[string]string{journal.ArchiveVia: row.via},
			})
			if row.cuts {
				p.record(t, "f", 2, phase.Record{Type: phase.RecordIntent, Name: journal.IntentCreateVolumes})
			}
			p.deps.EBS, p.deps.Connect = nil, func() (EBS, error) { return nil, errNoAWS }
			_, err := Abort(t.Context(), p.deps, AbortOptions{Run: "f", Rate: fast})
			require.ErrorIs(t, err, row.want)
			_, left := k.left["f"]
			require.Equal(t, row.want != nil, left)
			require.Contains(t, k.left, cluster.RunID("v"), "another run's")
			require.Len(t, p.ec2.volumes, 1)
		})
	}
}

// Without an answer of Kubernetes an abort has not removed everything: it fails, and deletes nothing.
func TestAbort_KubernetesDoesNotAnswer_Fails(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.killed(t)
	p.ec2.volumes = nil // nothing in EC2 makes it fail
	p.deps.Kube = func() (Kube, error) { return &silent{kubernetes{uid: "uid-k"}}, nil }
	_, err := Abort(t.Context(), p.deps, AbortOptions{Run: "v", Rate: fast})
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	p.deps.Kube = nil
	_, err = Abort(t.Context(), p.deps, AbortOptions{Run: "v", Rate: fast})
	require.ErrorContains(t, err, "no Kubernetes cluster is configured")
	require.Len(t, p.ec2.ids(), 2)
}

// What it left is in another Kubernetes cluster, which is not asked: nothing of it is deleted, and its journal is not ended.
// Catalogue: H3.
func TestAbortInAnotherKubernetes_IsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := p.killed(t)
	k.uid = "uid-other"
	_, err := Abort(t.Context(), p.deps, AbortOptions{Run: "v", Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "uid-k")
	require.ErrorContains(t, err, "uid-other")
	require.Len(t, p.ec2.volumes, 1)
	require.Len(t, k.left, 1)
}

func TestAbort_WhatMustNotGo_IsRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*testing.T, *place, *kubernetes)
		run    cluster.RunID
		kind   failure.Kind
	}{
		"no such run": {func(*testing.T, *place, *kubernetes) {}, "absent", failure.NotFound},
		"a backup":    {func(*testing.T, *place, *kubernetes) {}, "r", failure.Usage},
		"it served": {func(t *testing.T, p *place, _ *kubernetes) {
			p.record(t, "v", 3, phase.Record{Type: phase.RecordDone, Step: journal.StepAwaitLeaders})
		}, "v", failure.Conflict},
		"it is alive": {func(t *testing.T, p *place, _ *kubernetes) { p.lockOf(t, copied, "v") }, "v", failure.Conflict},
		"a resolve finished it": {func(t *testing.T, p *place, _ *kubernetes) {
			p.resolved(t, phase.Record{Type: phase.RecordEnd})
		}, "v", failure.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			k := p.killed(t)
			row.change(t, p, k)
			_, err := Abort(t.Context(), p.deps, AbortOptions{Run: row.run, Rate: fast})
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.Len(t, k.left, 1)
			require.Len(t, p.ec2.volumes, 1)
		})
	}
}

// A resolve reads the manifest when it is resumed: its backup is in use.
func TestDelete_ResolveRuns_IsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	p.resolved(t)
	p.lockOf(t, copied, "x")
	_, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "run x (resolve) uses it")
	require.Len(t, p.ec2.ids(), 2)
}

// A backup is not deleted while an archive reads it, whose lock is beside its cluster's.
func TestDelete_ArchiveOrDrillRuns_IsRefused(t *testing.T) {
	t.Parallel()
	for _, of := range []journal.Operation{journal.Archive, journal.Drill} {
		t.Run(string(of), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.seal(t)
			about := journal.About{Operation: of, Cluster: prod, Backup: "b"}
			p.died(t, "a", about)
			p.lockOf(t, about.Lock(), "a")
			_, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, "run a ("+string(of)+") uses it")
			require.Len(t, p.ec2.ids(), 2)
		})
	}
}

// A run that copies the backup has its journal in another storage, and only a lease here, which ends.
func TestDelete_CopyHasALease_IsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	owner := runlock.Owner{Run: "c", Host: "h", PID: 1, Command: "copy", Backup: "b"}
	lease, err := runlock.Acquire(t.Context(), p.deps.Store, journal.UseLock(prod, "elsewhere"), owner, time.Hour)
	require.NoError(t, err)
	_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "it is being copied into another storage: run c (copy")
	require.Len(t, p.ec2.ids(), 2)
	p.sealAs(t, "newer", "r2", "snap-3", now.Add(time.Hour))
	p.cut("r2", "newer", "snap-3")
	report, err := Prune(t.Context(), p.deps, PruneOptions{Policy: retention.Policy{Last: 1}, Rate: fast})
	require.NoError(t, err)
	require.Equal(t, 1, report.Count(ActionInUse), "%v", report)
	require.Len(t, p.ec2.ids(), 3)
	require.NoError(t, lease.Release(t.Context()))
	_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
	require.NoError(t, err)
	require.Equal(t, []cluster.SnapshotID{"snap-3"}, p.ec2.ids())
}

// What a dead copy made is deleted, and so is its name; that of a live one, or of one that was sealed, stays.
func TestCollect_DeadCopy_ItsSnapshotsGo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	about := journal.About{Operation: journal.Copy, Cluster: prod, Backup: "other", Region: region}
	p.died(t, "c", about)
	require.NoError(t, p.catalog.Claim(t.Context(), catalog.Claim{ID: "other", Run: "c", Cluster: prod, ClaimedAt: now}))
	p.cut("c", "other", "snap-8", "snap-9")
	lock := p.lockOf(t, about.Lock(), "c")
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, ActionInUse, actions(report)["snap-8"])
	require.NoError(t, lock.Release(t.Context()))
	report, err = Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, ActionDeleted, actions(report)["snap-8"], "%v", report)
	require.Equal(t, ActionDeleted, actions(report)["other"])
	require.Equal(t, []cluster.SnapshotID{"snap-1"}, p.ec2.ids())
}

func TestReadRun_Resolve_IsUnderstood(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(journal.About{Operation: journal.Resolve, Cluster: copied})
	require.NoError(t, err)
	r, err := readRun("x", []phase.Record{{Type: phase.RecordRun, Data: data}})
	require.NoError(t, err)
	require.False(t, r.unfinished())
}

// What an earlier version left carries no run: it is named with what deletes it, and not deleted.
func TestCollect_ClaimsWithoutARunOfATargetThatIsGone_AreNamedAndKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := p.killed(t)
	k.strays = []kube.Stray{{Claim: "pd-copy-pd-0", Volume: "pvc-9", Handle: "vol-9"}, {Volume: "pvc-8", Handle: "vol-8"}}
	kept := map[string]Action{"tidb/pd-copy-pd-0": ActionKeep, "pvc-9": ActionKeep, "pvc-8": ActionKeep}
	maps.Copy(kept, all(ActionDeleted))
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast, Clusters: true})
	require.NoError(t, err)
	require.Equal(t, kept, of(report, "v"))
	require.Contains(t, reasons(report), "kubectl -n tidb delete pvc pd-copy-pd-0")
	require.Contains(t, reasons(report), "kubectl delete pv pvc-8, and then volume vol-8")

	p.died(t, "w", journal.About{Operation: journal.Restore, Cluster: copied, Backup: "b", Kubernetes: "https://k", KubernetesUID: "uid-k"})
	report, err = Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Empty(t, of(report, "v"), "each is named once")
	require.Len(t, of(report, "w"), 3)
	_, err = Abort(t.Context(), p.deps, AbortOptions{Run: "w", Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "stays: cluster tidb/copy is gone")
}

// An earlier version left volumes for claims that are gone, too: only the CSI driver's tags have them. Another Kubernetes cluster
// may have a cluster of the same name, so that they are named and never deleted, nor keep an abort from its end.
func TestCollect_VolumesMadeForClaimsOfATargetThatIsGone_AreNamedAndKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := p.killed(t)
	k.absent, k.left = true, map[cluster.RunID]kube.RestoreLeftover{"other": {Volumes: []string{"pv-9"}, Handles: []cluster.VolumeID{"vol-named"}}}
	p.ec2.volumes = nil
	add := func(id cluster.VolumeID, change func(*ebs.Volume)) {
		v := ebs.Volume{ID: id, State: ebs.VolumeAvailable, CreatedAt: time.Now(), Tags: ebs.Tags{
			"kubernetes.io/created-for/pvc/namespace": "tidb", "kubernetes.io/created-for/pvc/name": "pd-copy-pd-0",
		}}
		change(&v)
		p.ec2.volumes = append(p.ec2.volumes, v)
	}
	add("vol-left", func(*ebs.Volume) {})
	add("vol-before", func(v *ebs.Volume) { v.CreatedAt = time.Now().Add(-24 * time.Hour) })
	add("vol-attached", func(v *ebs.Volume) { v.State, v.Instance = ebs.VolumeInUse, "i-1" })
	add("vol-named", func(*ebs.Volume) {})
	add("vol-another", func(v *ebs.Volume) { v.Tags["kubernetes.io/created-for/pvc/name"] = "pd-prod-pd-0" })
	add("vol-elsewhere", func(v *ebs.Volume) { v.Tags["kubernetes.io/created-for/pvc/namespace"] = "other" })
	before := slices.Clone(p.ec2.volumes)
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast, Clusters: true})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{"vol-left": ActionKeep}, of(report, "v"))
	require.Contains(t, reasons(report), "aws ec2 delete-volume --region us-west-2 --volume-id vol-left")
	require.Equal(t, before, p.ec2.volumes)
	_, err = Abort(t.Context(), p.deps, AbortOptions{Run: "v", Rate: fast})
	require.NoError(t, err)

	k.absent = false
	report, err = Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Empty(t, of(report, "v"), "a cluster of the name is there, and may want them")
}
