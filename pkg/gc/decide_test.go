package gc

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

var (
	now  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	prod = cluster.Name{Namespace: "tidb", Name: "prod"}
)

// dead is a world in which run r of backup b died long ago, and with it a restore v that bound its volumes.
func dead() *decider {
	return &decider{
		olderThan: time.Hour,
		world: world{
			now:     now,
			backups: map[cluster.BackupID]catalog.Entry{"b": {ID: "b", Run: "r", State: catalog.StateUnsealed}},
			named:   map[cluster.SnapshotID]cluster.BackupID{}, broken: map[cluster.BackupID]string{},
			known: map[cluster.RunID]bool{"r": true, "v": true},
			runs: map[cluster.RunID]*run{
				"r": {ID: "r", About: journal.About{Operation: journal.Backup, Cluster: prod, Backup: "b"}, Last: now.Add(-2 * time.Hour)},
				"v": {ID: "v", About: journal.About{Operation: journal.Restore, Cluster: prod, Backup: "b", Kubernetes: "https://k", KubernetesUID: "uid-k"}, Last: now.Add(-2 * time.Hour), Bound: true},
			},
			doubts: map[cluster.RunID]error{}, locks: map[cluster.Name]runlock.Finding{}, unread: map[cluster.Name]error{},
			handles: map[cluster.VolumeID]string{}, kubernetes: "https://k", kubernetesUID: "uid-k", locked: map[cluster.SnapshotID]ebs.SnapshotLock{},
		},
	}
}

func lockOf(id cluster.RunID, until time.Time) runlock.Finding {
	return runlock.Finding{Record: &runlock.Record{
		Cluster: prod, Owner: runlock.Owner{Run: id}, ExpiresAt: until, RenewedAt: until.Add(-10 * time.Minute),
	}}
}

func deadLockOf(id cluster.RunID, until time.Time) runlock.Finding {
	f := lockOf(id, until)
	f.Dead = true
	return f
}

func TestSnapshot_EachDoubt_KeepsIt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*decider)
		want   Action
	}{
		"its run died":                {func(*decider) {}, ActionDelete},
		"its run failed":              {func(j *decider) { j.runs["r"].Ended, j.runs["r"].Error = true, "no" }, ActionDelete},
		"sealed without it":           {func(j *decider) { j.backups["b"] = catalog.Entry{ID: "b", Run: "r", State: catalog.StateSealed} }, ActionDelete},
		"its backup was removed":      {func(j *decider) { delete(j.backups, "b") }, ActionDelete},
		"its backup is being removed": {func(j *decider) { j.backups["b"] = catalog.Entry{ID: "b", State: catalog.StateRemoving} }, ActionDelete},
		"the lock is another's":       {func(j *decider) { j.locks[prod] = lockOf("x", now.Add(time.Hour)) }, ActionDelete},
		"the lock has expired":        {func(j *decider) { j.locks[prod] = lockOf("r", now.Add(-10*time.Minute)) }, ActionDelete},
		"the lock is alive":           {func(j *decider) { j.locks[prod] = lockOf("r", now.Add(time.Minute)) }, ActionInUse},
		"watched, and not renewed":    {func(j *decider) { j.locks[prod] = deadLockOf("r", now.Add(time.Minute)) }, ActionDelete},
		"alive by another clock":      {func(j *decider) { j.locks[prod] = lockOf("r", now.Add(-20*time.Second)) }, ActionInUse},
		"the lock cannot be read":     {func(j *decider) { j.unread[prod] = errors.New("garbage") }, ActionKeep},
		"a sealed manifest names it":  {func(j *decider) { j.named["snap-1"] = "b" }, ActionInUse},
		"another's manifest names it": {func(j *decider) { j.named["snap-1"] = "other" }, ActionInUse},
		"too young":                   {func(j *decider) { j.runs["r"].Last = now.Add(-59 * time.Minute) }, ActionKeep},
		"locked":                      {func(j *decider) { j.locked["snap-1"] = ebs.SnapshotLock{Snapshot: "snap-1", Mode: "governance"} }, ActionKeep},
		"its lock has expired":        {func(j *decider) { j.locked["snap-1"] = ebs.SnapshotLock{Snapshot: "snap-1", Mode: "expired"} }, ActionDelete},
		"locked, and being removed": {func(j *decider) {
			j.backups["b"] = catalog.Entry{State: catalog.StateRemoving}
			j.locked["snap-1"] = ebs.SnapshotLock{Mode: "compliance"}
		}, ActionKeep},
		"its backup is damaged":           {func(j *decider) { j.broken["b"] = "truncated" }, ActionKeep},
		"its journal is damaged":          {func(j *decider) { delete(j.runs, "r"); j.doubts["r"] = errors.New("gap") }, ActionKeep},
		"its journal was not read":        {func(j *decider) { delete(j.runs, "r") }, ActionKeep},
		"its journal is of another one":   {func(j *decider) { j.runs["r"].Backup = "c" }, ActionKeep},
		"its journal is of a restore":     {func(j *decider) { j.runs["r"].Operation = journal.Restore }, ActionKeep},
		"the backup is of another run":    {func(j *decider) { j.backups["b"] = catalog.Entry{ID: "b", Run: "x", State: catalog.StateUnsealed} }, ActionKeep},
		"sealed by another run, its name": {func(j *decider) { j.backups["b"] = catalog.Entry{ID: "b", Run: "x", State: catalog.StateSealed} }, ActionKeep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				j := dead()
				row.change(j)
				got, ours := j.snapshot(ebs.Snapshot{ID: "snap-1", Tags: ebs.Tags{ebs.TagRun: "r", ebs.TagBackup: "b"}})
				require.True(t, ours)
				require.Equal(t, row.want, got.Action, got.Reason)
				require.NotEmpty(t, got.Reason)
			})
		})
	}
	_, ours := dead().snapshot(ebs.Snapshot{ID: "snap-1", Tags: ebs.Tags{ebs.TagRun: "elsewhere", ebs.TagBackup: "b"}})
	require.False(t, ours, "another storage's")
}

// A snapshot that a restore made of an archive is the restore's alone, whatever becomes of the backup of that name.
func TestSnapshot_OfAnArchive_IsDeletedWhenItsRestoreIsOver(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*decider)
		want   Action
	}{
		"its run died":          {func(*decider) {}, ActionDelete},
		"its run ended":         {func(j *decider) { j.runs["v"].Ended, j.runs["v"].Served = true, true }, ActionDelete},
		"its backup is damaged": {func(j *decider) { j.broken["b"] = "truncated" }, ActionDelete},
		"the lock is alive":     {func(j *decider) { j.locks[prod] = lockOf("v", now.Add(time.Minute)) }, ActionInUse},
		"alive, its backup goes": {func(j *decider) {
			j.backups["b"] = catalog.Entry{State: catalog.StateRemoving}
			j.locks[prod] = lockOf("v", now.Add(time.Minute))
		}, ActionInUse},
		"too young":                  {func(j *decider) { j.runs["v"].Last = now.Add(-59 * time.Minute) }, ActionKeep},
		"locked":                     {func(j *decider) { j.locked["snap-1"] = ebs.SnapshotLock{Snapshot: "snap-1", Mode: "governance"} }, ActionKeep},
		"its run failed, and keeps":  {func(j *decider) { j.runs["v"].Ended, j.runs["v"].Error, j.runs["v"].Keep = true, "no", true }, ActionKeep},
		"kept no more":               {func(j *decider) { j.runs["v"].Keep, j.kept = true, true }, ActionDelete},
		"its journal was not read":   {func(j *decider) { delete(j.runs, "v") }, ActionKeep},
		"its journal is of a backup": {func(j *decider) { j.runs["v"].Operation = journal.Backup }, ActionKeep},
		"its journal is of another":  {func(j *decider) { j.runs["v"].Cluster.Name = "other" }, ActionKeep},
		"a sealed manifest names it": {func(j *decider) { j.named["snap-1"] = "b" }, ActionInUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := dead()
			row.change(j)
			got, ours := j.snapshot(ebs.Snapshot{ID: "snap-1", Tags: ebs.Tags{
				ebs.TagRun: "v", ebs.TagBackup: "b", ebs.TagCluster: prod.String(), ebs.TagArchive: "b-1",
			}})
			require.True(t, ours)
			require.Equal(t, row.want, got.Action, got.Reason)
		})
	}
}

// resolved adds a resolve of the cluster that succeeded.
func (j *decider) resolved() {
	j.runs["s"] = &run{ID: "s", About: journal.About{Operation: journal.Resolve, Cluster: prod, Backup: "b"}, Last: now.Add(-2 * time.Hour), Ended: true}
}

func TestVolume_EachDoubt_KeepsIt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*decider, *ebs.Volume)
		want   Action
	}{
		"its run died":              {func(*decider, *ebs.Volume) {}, ActionDelete},
		"in error":                  {func(_ *decider, v *ebs.Volume) { v.State = ebs.VolumeError }, ActionDelete},
		"attached":                  {func(_ *decider, v *ebs.Volume) { v.Instance = "i-1" }, ActionInUse},
		"in use":                    {func(_ *decider, v *ebs.Volume) { v.State = ebs.VolumeInUse }, ActionInUse},
		"the lock is alive":         {func(j *decider, _ *ebs.Volume) { j.locks[prod] = lockOf("v", now.Add(time.Minute)) }, ActionInUse},
		"too young":                 {func(j *decider, _ *ebs.Volume) { j.runs["v"].Last = now }, ActionKeep},
		"its cluster served":        {func(j *decider, _ *ebs.Volume) { j.runs["v"].Served = true }, ActionKeep},
		"its restore succeeded":     {func(j *decider, _ *ebs.Volume) { j.runs["v"].Ended = true }, ActionKeep},
		"keep on failure":           {func(j *decider, _ *ebs.Volume) { j.runs["v"].Keep = true }, ActionKeep},
		"keep on failure, --kept":   {func(j *decider, _ *ebs.Volume) { j.runs["v"].Keep, j.kept = true, true }, ActionDelete},
		"a PV names it":             {func(j *decider, _ *ebs.Volume) { j.handles["vol-1"] = "pv" }, ActionKeep},
		"PVs are unknown":           {func(j *decider, _ *ebs.Volume) { j.noHandles = errors.New("no kubeconfig") }, ActionKeep},
		"bound elsewhere":           {func(j *decider, _ *ebs.Volume) { j.kubernetesUID = "uid-2" }, ActionKeep}, // the URL is the same
		"bound by another URL":      {func(j *decider, _ *ebs.Volume) { j.kubernetes = "https://alias" }, ActionDelete},
		"bound at an unknown place": {func(j *decider, _ *ebs.Volume) { j.runs["v"].KubernetesUID = "" }, ActionKeep}, // an old journal
		"never bound":               {func(j *decider, _ *ebs.Volume) { j.kubernetesUID, j.runs["v"].Bound = "uid-2", false }, ActionDelete},
		"a resolve finished it":     {func(j *decider, _ *ebs.Volume) { j.resolved() }, ActionKeep},
		"a resolve has it": {func(j *decider, _ *ebs.Volume) {
			j.resolved()
			j.locks[prod] = lockOf("s", now.Add(time.Minute))
		}, ActionInUse},
		"never bound, and a resolve finished the next restore": {func(j *decider, _ *ebs.Volume) { j.runs["v"].Bound = false; j.resolved() }, ActionDelete},
		"its journal is damaged":                               {func(j *decider, _ *ebs.Volume) { delete(j.runs, "v"); j.doubts["v"] = errors.New("gap") }, ActionKeep},
		"of another cluster":                                   {func(j *decider, _ *ebs.Volume) { j.runs["v"].Cluster.Name = "x" }, ActionKeep},
		"of a backup":                                          {func(j *decider, _ *ebs.Volume) { j.runs["v"].Operation = journal.Backup }, ActionKeep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				j := dead()
				v := ebs.Volume{ID: "vol-1", State: ebs.VolumeAvailable, Tags: ebs.Tags{ebs.TagRun: "v", ebs.TagCluster: prod.String()}}
				row.change(j, &v)
				got, ours := j.volume(v)
				require.True(t, ours)
				require.Equal(t, row.want, got.Action, got.Reason)
			})
		})
	}
	_, ours := dead().volume(ebs.Volume{ID: "vol-1", Tags: ebs.Tags{ebs.TagRun: "elsewhere"}})
	require.False(t, ours)
}

func TestFastRestores_OnlyThoseOfDeadRuns_AreEnded(t *testing.T) {
	t.Parallel()
	pair := ebs.FastRestore{Snapshot: "snap-1", Zone: "a", State: ebs.FastRestoreEnabled}
	j := dead()
	require.Empty(t, j.fastRestores([]ebs.FastRestore{pair}), "someone else's")
	j.runs["v"].Fast = journal.FastRestore{Snapshots: []cluster.SnapshotID{"snap-1"}, Zones: []cluster.Zone{"a"}}
	got := j.fastRestores([]ebs.FastRestore{pair, {Snapshot: "snap-1", Zone: "b", State: ebs.FastRestoreEnabled}, {Snapshot: "snap-1", Zone: "a", State: ebs.FastRestoreDisabled}})
	require.Len(t, got, 1)
	require.Equal(t, ActionDelete, got[0].Action)
	j.runs["w"] = &run{ID: "w", About: journal.About{Operation: journal.Restore, Cluster: cluster.Name{Namespace: "tidb", Name: "w"}}, Last: now, Fast: j.runs["v"].Fast}
	require.Equal(t, ActionKeep, j.fastRestores([]ebs.FastRestore{pair})[0].Action, "a younger run uses it too")
}

func TestReadRun_WhatItDoesNotUnderstand_IsCorrupt(t *testing.T) {
	t.Parallel()
	about := func(text string) phase.Record {
		return phase.Record{Type: phase.RecordRun, Data: json.RawMessage(text)}
	}
	for name, records := range map[string][]phase.Record{
		"empty": nil, "no head": {{Type: phase.RecordBegin}}, "garbage": {about(`[`)}, "a newer operation": {about(`{"operation":"migrate"}`)},
		"garbage in an intent": {about(`{"operation":"restore"}`), {Type: phase.RecordIntent, Name: journal.IntentFastRestore, Data: json.RawMessage(`7`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readRun("r", records)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
		})
	}
	head := about(`{"operation":"restore","backup":"b","keepOnFailure":true,"kubernetes":"k"}`)
	end := phase.Record{Type: phase.RecordEnd, Error: "no", Time: now}
	r, err := readRun("r", []phase.Record{head, {Type: phase.RecordBegin, Step: journal.StepBindVolumes}, end})
	require.NoError(t, err)
	require.True(t, r.Ended && r.Bound && r.Keep && !r.Served)
	require.Equal(t, now, r.Last)
	for _, serves := range []phase.Record{
		{Type: phase.RecordDone, Step: journal.StepAwaitLeaders}, {Type: phase.RecordResult, Step: "await-tidb", Name: journal.ResultServes},
	} {
		r, err = readRun("r", []phase.Record{head, end, serves})
		require.NoError(t, err)
		require.True(t, r.Served)
		require.False(t, r.Ended, "it was resumed")
	}
}

// handles is a Kubernetes cluster without persistent volumes.
type handles struct {
	uid string
	err error
}

func (h handles) Leftover(context.Context, cluster.Name, cluster.RunID) (kube.RestoreLeftover, error) {
	return kube.RestoreLeftover{}, nil
}
func (h handles) DeleteLeftover(context.Context, kube.RestoreLeftover) error   { return nil }
func (h handles) Handles(context.Context) (map[cluster.VolumeID]string, error) { return nil, nil }
func (h handles) Server() string                                               { return "https://kubernetes.default.svc" }
func (h handles) ClusterUID(context.Context) (string, error)                   { return h.uid, h.err }

// In every cluster the API server's URL is the same from inside: by it gc offered to delete another cluster's volumes.
func TestVolume_OfAnotherKubernetesClusterWithTheSameURL_IsKept(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		here handles
		want Action
	}{
		"this cluster":         {handles{uid: "uid-k"}, ActionDelete},
		"another cluster":      {handles{uid: "uid-2"}, ActionKeep},
		"it may not be asked":  {handles{err: errors.New("forbidden")}, ActionKeep},
		"it has none, somehow": {handles{}, ActionKeep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := dead()
			j.readHandles(t.Context(), Deps{Kube: func() (Kube, error) { return row.here, nil }})
			got, ours := j.volume(ebs.Volume{ID: "vol-1", State: ebs.VolumeAvailable, Tags: ebs.Tags{ebs.TagRun: "v", ebs.TagCluster: prod.String()}})
			require.True(t, ours)
			require.Equal(t, row.want, got.Action, got.Reason)
		})
	}
}
