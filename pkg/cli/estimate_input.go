package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
)

// minChangedShare is the smallest share of the data, as a divisor, that a snapshot is assumed to copy: compaction
// rewrites data that was not written to.
const minChangedShare = 20

// lastBackupOf predicts what the cluster's next backup works on from its last one; NotFound without one.
func lastBackupOf(
	ctx context.Context, store objstore.Store, reader *history.Reader, name cluster.Name,
) (estimate.Input, error) {
	state, err := reader.Runs(ctx, time.Time{})
	if err != nil {
		return estimate.Input{}, err
	}
	last := lastBackupIn(state.Runs, name)
	if last == nil {
		return estimate.Input{}, failure.New(failure.NotFound, "estimate backup", name.String(),
			"the storage has no backup of it with a data size").
			WithHint("give the size instead: tisnap estimate --stores 3 --data 1TiB")
	}
	in := inputOf(last)
	m, err := catalog.Catalog{Store: store}.Unsealed(ctx, last.Backup)
	if err == nil { // else deleted since; the report has most of it
		in = onVolumes(in, len(m.Source.Stores), sourceSpecs(&m.Source))
	}
	return in, nil
}

// lastBackupIn returns the cluster's latest completed backup with a data size; nil if there is none.
func lastBackupIn(runs []history.Run, name cluster.Name) *history.Run {
	for i := len(runs) - 1; i >= 0; i-- {
		if run := &runs[i]; run.Operation == report.Backup && run.Outcome == phase.Done && run.Cluster == name &&
			run.DataBytes > 0 {
			return run
		}
	}
	return nil
}

// restoreInput returns what a restore of the backup works on if it keeps the volumes' settings.
func restoreInput(id cluster.BackupID) inputFunc {
	return func(ctx context.Context, store objstore.Store, reader *history.Reader) (estimate.Input, error) {
		found, err := reader.Find(ctx, string(id))
		if err != nil {
			return estimate.Input{}, err
		}
		in := estimate.Input{}
		if r := found.Report(); r != nil {
			run := history.Summarize(r)
			in = inputOf(&run)
			in.ChangedBytes = 0
		}
		m, err := catalog.Catalog{Store: store}.Unsealed(ctx, cmp.Or(found.Backup, id))
		switch {
		case err == nil:
			in = onVolumes(in, len(m.Source.Stores), snapshotSpecs(m))
			in.MarkedShare = restore.MarkedShare(m, restore.Options{})
		case in.DataBytes == 0:
			return in, err
		}
		return in, nil
	}
}

// plannedRestore returns what the planned restore works on.
func plannedRestore(opts restore.Options, p *restore.Plan) estimate.Input {
	in := estimate.Input{
		Operation: report.Restore, DataBytes: p.DataBytes, LargestBytes: p.LargestBytes, Writes: true,
		FastRestore: opts.FastRestore, InitializationMiB: p.InitializationMiB, MarkedShare: p.MarkedShare,
	}
	return onVolumes(in, len(p.Manifest.Source.Stores), specsOf(p.Volumes))
}

// onVolumes returns in on these volumes, with the settings of the largest.
func onVolumes(in estimate.Input, stores int, specs []cluster.VolumeSpec) estimate.Input {
	in.Stores, in.Volumes, in.SizesGiB = stores, len(specs), 0
	for _, s := range specs {
		in.SizesGiB += s.SizeGiB
	}
	if v := report.SettingsOf(specs); v != nil {
		in.Spec = cluster.VolumeSpec{Type: v.Type, SizeGiB: v.SizeGiB, IOPS: v.IOPS, ThroughputMiB: v.ThroughputMiB}
	}
	return in
}

func sourceSpecs(t *cluster.Topology) []cluster.VolumeSpec {
	var out []cluster.VolumeSpec
	for i := range t.Stores {
		for j := range t.Stores[i].Volumes {
			out = append(out, t.Stores[i].Volumes[j].VolumeSpec)
		}
	}
	return out
}

func snapshotSpecs(m *manifest.Manifest) []cluster.VolumeSpec {
	var out []cluster.VolumeSpec
	for i := range m.Snapshots {
		out = append(out, m.Snapshots[i].VolumeSpec)
	}
	return out
}

func specsOf(volumes []restore.Volume) []cluster.VolumeSpec {
	var out []cluster.VolumeSpec
	for i := range volumes {
		if volumes[i].Filled == nil { // otherwise its StorageClass has the rest
			out = append(out, volumes[i].Spec)
		}
	}
	return out
}

// inputOf returns what a past run worked on. Restored volumes hold data of a backup under load, unless nothing was
// written. A backup's snapshots copied what changed since the previous one, by the marks of both; everything where that
// is unknown.
func inputOf(run *history.Run) estimate.Input {
	in := estimate.Input{
		Operation: run.Operation, Stores: run.TiKVs, Volumes: run.Volumes, DataBytes: run.DataBytes,
		LargestBytes: run.PerVolumeBytes, Writes: true,
	}
	if c := run.Changed; c != nil {
		in.ChangedBytes = max(c.DataBytes, run.DataBytes/minChangedShare, 1)
	}
	if v := run.Settings; v != nil {
		in.Spec = cluster.VolumeSpec{Type: v.Type, SizeGiB: v.SizeGiB, IOPS: v.IOPS, ThroughputMiB: v.ThroughputMiB}
		in.FastRestore, in.InitializationMiB = v.FastRestore, v.InitializationMiB
	}
	return in
}

// fitTo scales the model to the storage's runs.
func fitTo(ctx context.Context, reader *history.Reader) (*estimate.Fit, error) {
	state, err := reader.Runs(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	return fitOf(state.Runs), nil
}

// fitOf scales the model to completed runs, oldest first.
func fitOf(runs []history.Run) *estimate.Fit {
	var samples []estimate.Sample
	for i := range runs {
		if runs[i].Outcome != phase.Done || runs[i].Problem != "" {
			continue
		}
		s := estimate.Sample{
			Input: inputOf(&runs[i]), Phases: map[string]float64{}, UnchangedShare: runs[i].Regions.UnchangedShare(),
		}
		for _, p := range runs[i].Phases {
			s.Phases[p.Name] = p.Seconds
		}
		samples = append(samples, s)
	}
	return estimate.NewFit(samples)
}
