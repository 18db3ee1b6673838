package cli

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// lastBackupOf is what the last backup of the cluster worked on. Without one it is NotFound.
func lastBackupOf(ctx context.Context, reader *history.Reader, name cluster.Name) (estimate.Input, error) {
	state, err := reader.Runs(ctx, time.Time{})
	if err != nil {
		return estimate.Input{}, err
	}
	for i := len(state.Runs) - 1; i >= 0; i-- {
		if run := &state.Runs[i]; run.Operation == report.Backup && run.Outcome == phase.Done && run.Cluster == name && run.DataBytes > 0 {
			return inputOf(run), nil
		}
	}
	return estimate.Input{}, failure.New(failure.NotFound, "estimate backup", name.String(), "the storage has no backup of it that says how much data there is").
		WithHint("say it yourself: tisnap estimate --stores 3 --data 1TiB")
}

// restoreInput is what a restore of the backup works on.
func restoreInput(id cluster.BackupID) func(context.Context, *history.Reader) (estimate.Input, error) {
	return func(ctx context.Context, reader *history.Reader) (estimate.Input, error) {
		found, err := reader.Find(ctx, string(id))
		if err != nil {
			return estimate.Input{}, err
		}
		r := found.Report()
		if r == nil || r.DataBytes <= 0 {
			return estimate.Input{}, failure.New(failure.NotFound, "estimate restore", string(id), "its report does not say how much data there is").
				WithHint("say it with --stores and --data")
		}
		run := history.Summarize(r)
		return inputOf(&run), nil
	}
}

// inputOf is what a past run worked on. Restored volumes have the data of a backup under load, unless nobody wrote.
func inputOf(run *history.Run) estimate.Input {
	in := estimate.Input{
		Operation: run.Operation, Stores: run.TiKVs, Volumes: run.Volumes, DataBytes: run.DataBytes, LargestBytes: run.PerVolumeBytes, Writes: true,
	}
	if v := run.Settings; v != nil {
		in.Spec.Type, in.Spec.IOPS, in.Spec.ThroughputMiB = v.Type, v.IOPS, v.ThroughputMiB
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

// fitOf scales the model to runs that were done, the oldest first.
func fitOf(runs []history.Run) *estimate.Fit {
	var samples []estimate.Sample
	for i := range runs {
		if runs[i].Outcome != phase.Done || runs[i].Problem != "" {
			continue
		}
		s := estimate.Sample{Input: inputOf(&runs[i]), Phases: map[string]float64{}}
		for _, p := range runs[i].Phases {
			s.Phases[p.Name] = p.Seconds
		}
		samples = append(samples, s)
	}
	return estimate.NewFit(samples)
}
