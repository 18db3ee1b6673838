package restore

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// versionedPD lists one TiKV store of a version, or fails.
type versionedPD struct {
	PD
	version string
	err     error
}

func (p *versionedPD) Stores(context.Context) ([]pd.Store, error) {
	return []pd.Store{{ID: 1, State: pd.StoreUp, Version: p.version}}, p.err
}

// targetOf is a Kubernetes in which the target has so many TiDB servers, or cannot be read.
type targetOf struct {
	kube.Restorer
	tidb    int
	pods    []string
	err     error
	podsErr error
}

func (k targetOf) Cluster(context.Context, cluster.Name) (kube.TidbCluster, error) {
	return kube.TidbCluster{TiDBReplicas: k.tidb}, k.err
}

func (k targetOf) TiDBPods(context.Context, cluster.Name) ([]string, error) { return k.pods, k.podsErr }

// notices keeps the notes and warnings of a run.
type notices struct{ notes, warnings []string }

func (n *notices) Emit(e phase.Event) {
	switch e.Type {
	case phase.Note:
		n.notes = append(n.notes, e.Message)
	case phase.Warning:
		n.warnings = append(n.warnings, e.Message)
	default:
	}
}

// marked is a run that restores a backup with the marks of three regions.
func marked(t *testing.T, sink phase.Sink) (*run, *versionedPD) {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	r := newRun(Deps{Kube: targetOf{}, Sink: sink, Store: store}, Options{Target: cluster.Name{Namespace: "tidb", Name: "copy"}}, byRun)
	ts := cluster.MakeTS(time.Unix(1_780_000_000, 0), 0)
	r.backup.Manifest = &manifest.Manifest{ID: "b", BackupTS: marks.After(ts)}
	r.backup.Source.Version = "v8.5.2"
	var err error
	set := marks.NewSet([]marks.Mark{{Region: 1, Index: 9}, {Region: 2, Index: 9}, {Region: 3, Index: 9}})
	r.backup.Marks, err = catalog.Catalog{Store: store}.PutMarks(t.Context(), "b", set, ts)
	require.NoError(t, err)
	oracle := &versionedPD{version: "8.5.2"}
	r.pd.PD = oracle
	return r, oracle
}

func (r *run) marksNow(t *testing.T) *marks.Set {
	t.Helper()
	var set *marks.Set
	require.NoError(t, r.runner.Check(t.Context(), phase.Step{Phase: phaseTiKV, Name: "marks", Deadline: time.Minute, Do: func(ctx context.Context, s *phase.Scope) error {
		set = r.loadMarks(ctx, s)
		return nil
	}}))
	return set
}

// What marks may be used for is decided by the backup, the versions on both sides, and the user; if they are not, every
// region is flashed back, as by a version that has none.
func TestLoadMarks_WhatDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(t *testing.T, r *run, p *versionedPD)
		used   bool
		note   string // that gives the reason; "" is none
		warns  string
	}{
		{name: "all is known", change: func(*testing.T, *run, *versionedPD) {}, used: true},
		{name: "auto", change: func(_ *testing.T, r *run, _ *versionedPD) { r.opts.Flashback = FlashbackAuto }, used: true},
		{name: "all on demand", change: func(_ *testing.T, r *run, _ *versionedPD) { r.opts.Flashback = FlashbackAll }},
		{name: "a backup without marks", change: func(_ *testing.T, r *run, _ *versionedPD) { r.backup.Marks = nil }},
		{name: "the manifest of an older version", change: func(t *testing.T, r *run, _ *versionedPD) {
			body, err := os.ReadFile("../manifest/testdata/manifest.v1.json")
			require.NoError(t, err)
			r.backup.Manifest, err = manifest.Decode(body)
			require.NoError(t, err)
		}},
		{
			name: "a store is left out", note: "writes on the excluded stores",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.opts.TolerateStores = []cluster.StoreID{1} },
		},
		{
			name: "another's cluster, whose TiDB the Operator starts meanwhile", note: "has 2 TiDB servers",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.target.kube = targetOf{tidb: 2} },
		},
		{
			name: "a cluster that cannot be read", note: "whether TiDB already runs",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.target.kube = targetOf{err: errors.New("gone")} },
		},
		{
			name: "no TiDB servers are wanted, and one has not ended", note: "TiDB pod copy-tidb-0 has not ended",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.target.kube = targetOf{pods: []string{"copy-tidb-0"}} },
		},
		{
			name: "pods that cannot be read", note: "whether TiDB already runs",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.target.kube = targetOf{podsErr: errors.New("gone")} },
		},
		{
			name: "without Kubernetes", note: "TiDB Operator may have started TiDB",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.target.kube = nil },
		},
		{
			name: "the backup ts is too close to the marks", warns: "not 1s above the marks' ts",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.backup.BackupTS-- },
		},
		{
			name: "a backup of an unknown TiKV", note: "TiKV 9.9.9 is not supported",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.backup.Source.Version = "9.9.9" },
		},
		{
			name: "restored stores of an unknown version", note: "TiKV 9.9.9 is not supported",
			change: func(_ *testing.T, _ *run, p *versionedPD) { p.version = "9.9.9" },
		},
		{
			name: "restored stores before the first release that can be backed up", note: "TiKV 6.5.7 is not supported",
			change: func(_ *testing.T, _ *run, p *versionedPD) { p.version = "6.5.7" },
		},
		{
			name: "a pre-release", note: "TiKV 8.5.0-alpha is not supported",
			change: func(_ *testing.T, _ *run, p *versionedPD) { p.version = "8.5.0-alpha" },
		},
		{
			name: "PD does not answer", note: "of the restored stores",
			change: func(_ *testing.T, _ *run, p *versionedPD) { p.err = failure.New(failure.Unready, "", "", "no leader") },
		},
		{
			name: "the marks are gone", warns: "cannot be used",
			change: func(t *testing.T, r *run, _ *versionedPD) {
				require.NoError(t, r.Store.Delete(t.Context(), manifest.MarksKey("b")))
			},
		},
		{
			name: "the marks are others than were sealed", warns: "cannot be used",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.backup.Marks.SHA256 = "00" },
		},
		{
			name: "there are fewer than were sealed", warns: "there are 3, sealed were 4",
			change: func(_ *testing.T, r *run, _ *versionedPD) { r.backup.Marks.Regions = 4 },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen := &notices{}
			r, oracle := marked(t, seen)
			c.change(t, r, oracle)
			set := r.marksNow(t)
			if c.used {
				require.Equal(t, 3, set.Len())
			} else {
				require.Nil(t, set)
			}
			requireOnly(t, c.note, seen.notes)
			requireOnly(t, c.warns, seen.warnings)
		})
	}
}

// requireOnly wants one text that contains want, or none if that is "".
func requireOnly(t *testing.T, want string, got []string) {
	t.Helper()
	if want == "" {
		require.Empty(t, got)
		return
	}
	require.Len(t, got, 1)
	require.Contains(t, got[0], want)
}

// What an estimate may count on is what loadMarks would use, as far as the manifest shows.
func TestMarkedShare_WhatDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *run)
		want   float64
	}{
		"of how many is unknown": {func(*run) {}, 1},
		"of four regions":        {func(r *run) { r.backup.Marks.Of = 4 }, 0.75},
		"no marks":               {func(r *run) { r.backup.Marks = nil }, 0},
		"none of any region":     {func(r *run) { r.backup.Marks.Regions = 0 }, 0},
		"all on demand":          {func(r *run) { r.opts.Flashback = FlashbackAll }, 0},
		"a store is left out":    {func(r *run) { r.opts.TolerateStores = []cluster.StoreID{1} }, 0},
		"too close to the marks": {func(r *run) { r.backup.BackupTS-- }, 0},
		"an unknown TiKV":        {func(r *run) { r.backup.Source.Version = "9.9.9" }, 0},
		"a target that exists":   {func(r *run) { r.target.existing = true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := marked(t, nil)
			c.change(r)
			require.InDelta(t, c.want, r.markedShare(), 1e-9)
		})
	}
}
