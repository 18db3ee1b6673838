package cli

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/underway"
)

// heard keeps the messages of a run.
type heard struct{ notes []string }

func (h *heard) Emit(e phase.Event) {
	if e.Type == phase.Note {
		h.notes = append(h.notes, e.Message)
	}
}

// source is what preflight finds of a cluster of three stores on these volumes.
func source(name string, spec cluster.VolumeSpec) *preflight.Source {
	s := &preflight.Source{Topology: cluster.Topology{Cluster: cluster.Name{Namespace: "tidb", Name: name}}}
	for range 3 {
		s.Topology.Stores = append(s.Topology.Stores, cluster.Store{Volumes: []cluster.Volume{{VolumeSpec: spec}}})
	}
	return s
}

// A machine that has never read the storage knows what its last runs took, and one that cannot read it runs without.
func TestAnnouncer_Backup_IsOfTheStoragesOwnRuns(t *testing.T) {
	store, err := objstore.Open(t.Context(), reported(t), objstore.Config{})
	require.NoError(t, err)
	g := &globalFlags{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	spec := cluster.VolumeSpec{Type: "gp3", SizeGiB: 300, IOPS: 3000, ThroughputMiB: 125}

	record, text := g.newExpecter(&heard{}, g.pastRuns(ended, store)).ofBackup(source("prod", spec), nil)
	require.Nil(t, record, "nothing is known, and nothing is to be asked")
	require.Empty(t, text)

	h := &heard{}
	eta := g.newExpecter(h, g.pastRuns(t.Context(), store))
	eta.Emit(phase.Event{Type: phase.PhaseStarted, Phase: report.CreateTask})
	require.Empty(t, h.notes, "it is not announced yet")
	record, text = eta.ofBackup(source("prod", spec), nil)
	require.Regexp(t, `^expected duration: .* \(.* to .*\), by the last 8 backups of this storage$`, text)
	eta.Emit(phase.Event{Type: phase.PhaseStarted, Phase: report.VolumeSnapshots})
	require.Len(t, h.notes, 1)
	require.Regexp(t, `^expected to take 1m40.*, by the last 8 backups of this storage$`, h.notes[0])
	require.InDelta(t, 100, phaseSeconds(underway.Expected(record), report.VolumeSnapshots), 1, "what is journalled is what was announced")

	record, text = g.newExpecter(h, g.pastRuns(ended, store)).ofBackup(source("prod", spec), nil)
	require.NotNil(t, record, "what was read before is known")
	require.NotEmpty(t, text)
	record, _ = g.newExpecter(h, g.pastRuns(ended, store)).ofBackup(source("other", spec), nil)
	require.Nil(t, record, "how much data another cluster has is unknown")
}

func phaseSeconds(e *report.Expected, phase string) float64 {
	for _, p := range e.Phases {
		if p.Name == phase {
			return p.Seconds
		}
	}
	return -1
}

// planned is a restore of three stores with 1,050 GB each onto these volumes.
func planned(spec cluster.VolumeSpec) *restore.Plan {
	p := &restore.Plan{Manifest: &manifest.Manifest{}, DataBytes: 3150e9, LargestBytes: 1050e9}
	for range 3 {
		p.Manifest.Source.Stores = append(p.Manifest.Source.Stores, cluster.Store{})
		p.Volumes = append(p.Volumes, restore.Volume{Spec: spec})
	}
	return p
}

// What is announced goes by what the run itself was asked for, not by what a run before was.
func TestAnnouncer_Restore_IsOfTheRunsOwnVolumes(t *testing.T) {
	t.Parallel()
	expect := func(opts restore.Options, spec cluster.VolumeSpec) *report.Expected {
		record, text := (&globalFlags{}).newExpecter(&heard{}, nil).expectation(plannedRestore(opts, planned(spec)), nil)
		require.NotEmpty(t, text)
		return underway.Expected(record)
	}
	slow := expect(restore.Options{}, cluster.VolumeSpec{Type: "gp3", SizeGiB: 3200, IOPS: 3000, ThroughputMiB: 125})
	published := expect(restore.Options{}, cluster.VolumeSpec{Type: "gp3", SizeGiB: 3200, IOPS: 7000, ThroughputMiB: 400})
	fast := expect(restore.Options{FastRestore: true}, cluster.VolumeSpec{Type: "gp3", SizeGiB: 3200, IOPS: 7000, ThroughputMiB: 400})
	require.InDelta(t, 786, phaseSeconds(published, report.ResolveData), 1)
	require.InDelta(t, 1200, phaseSeconds(slow, report.ResolveData), 20)
	require.InDelta(t, 393, phaseSeconds(fast, report.ResolveData), 1)
	require.Greater(t, phaseSeconds(fast, "enable fast restore"), 3000.0)
	require.InDelta(t, -1, phaseSeconds(published, "enable fast restore"), 0.1)
}

// A process that continues a run repeats what the first one announced, whatever it knows itself.
func TestAnnouncer_Continued_KeepsWhatWasAnnounced(t *testing.T) {
	t.Parallel()
	h := &heard{}
	eta := (&globalFlags{}).newExpecter(h, nil)
	first := json.RawMessage(`{"model":"the last 5 restores of this storage","seconds":600,"lowSeconds":500,"highSeconds":700,"phases":[{"name":"resolve data","seconds":400}]}`)
	record, text := eta.expectation(plannedRestore(restore.Options{}, planned(cluster.VolumeSpec{Type: "gp3"})), first)
	require.JSONEq(t, string(first), string(record))
	require.Contains(t, text, "10m")
	eta.Emit(phase.Event{Type: phase.PhaseStarted, Phase: report.ResolveData})
	require.Len(t, h.notes, 1)
	require.Contains(t, h.notes[0], "6m40")

	require.Nil(t, underway.Expected(json.RawMessage(`{"seconds":"soon"}`)), "another version's, that is not understood")
}

// Of a backup that followed another, only what changed was copied; compaction copies more than what was written.
func TestInputOf_Backup_WhatChangedByTheMarks(t *testing.T) {
	t.Parallel()
	run := &history.Run{Operation: report.Backup, TiKVs: 3, Volumes: 3, DataBytes: 1000, PerVolumeBytes: 400}
	for name, row := range map[string]struct {
		changed *report.Changed
		want    int64
	}{
		"not known": {nil, 0}, "a third": {&report.Changed{DataBytes: 333, Regions: 1, Of: 3}, 333}, "nothing": {&report.Changed{Of: 3}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := *run
			r.Changed = row.changed
			require.Equal(t, row.want, inputOf(&r).ChangedBytes)
		})
	}
}

// A model of AWS does not apply to another EC2, unless it is fitted to the runs there.
func TestAnnouncer_NotAWS_IsNotComparedUnlessFitted(t *testing.T) {
	for endpoint, not := range map[string]bool{
		"": false, "https://vpce-1.ec2.eu-west-1.vpce.amazonaws.com": false, "https://ec2.cn-north-1.amazonaws.com.cn": false,
		"https://ec2.us-east-1.api.aws": false, "http://127.0.0.1:4566": true,
	} {
		t.Setenv("AWS_ENDPOINT_URL", endpoint)
		require.Equal(t, not, (&globalFlags{}).notAWS(), endpoint)
	}
	h := &heard{}
	eta := (&globalFlags{endpoint: "http://127.0.0.1:4566"}).newExpecter(h, nil)
	record, text := eta.expectation(estimate.Input{Operation: report.Restore, Stores: 3, DataBytes: 1 << 40}, nil)
	require.Contains(t, text, "by the published tables, a model of AWS: not comparable here")
	require.True(t, underway.Expected(record).NotAWS)
	eta.Emit(phase.Event{Type: phase.PhaseStarted, Phase: report.ResolveData})
	require.Empty(t, h.notes, "nothing counts down")
}
