package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Initialize is the phase initialize: br holds the cluster until it is terminated. It returns when the Backup would be
// VolumeBackupInitialized.
func (o *Operator) Initialize(ctx context.Context, name cluster.Name) (*Run, error) {
	run, _, err := o.begin(ctx, "job-backup-snap-initialize-init", "initialize", name)
	if err != nil {
		return nil, err
	}
	return run, run.AwaitLines(ctx, "GC is paused", "Schedulers are paused", "All ready")
}

// Execute is the phase execute: the Operator writes the clustermeta, its manager hands it to br as a file, and br backs up.
func (o *Operator) Execute(ctx context.Context, name cluster.Name) (*Run, error) {
	run, err := o.BeginExecute(ctx, name)
	if err != nil {
		return nil, err
	}
	return run, run.Wait()
}

// BeginExecute starts br for the phase execute.
func (o *Operator) BeginExecute(ctx context.Context, name cluster.Name) (*Run, error) {
	meta, err := ClusterMeta(o.Bed, name)
	if err != nil {
		return nil, err
	}
	if err := o.Upload(ctx, "clustermeta", meta); err != nil {
		return nil, err
	}
	run, _, err := o.begin(ctx, "job-backup-snap-execute", "execute", name, func(p *Pod) error {
		return os.WriteFile(filepath.Join(p.Bin, "csb_backup.json"), meta, 0o600)
	})
	return run, err
}

// Backup is a whole Backup: initialize, execute, teardown. What the manager and the CR would show of it is checked. It
// returns the commitTs of the CR.
func (o *Operator) Backup(ctx context.Context, name cluster.Name) (cluster.TS, error) {
	holder, err := o.Initialize(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("initialize: %w", err)
	}
	run, err := o.Execute(ctx, name)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("execute: %w", err), holder.Terminate())
	}
	if err := holder.Terminate(); err != nil {
		return 0, fmt.Errorf("teardown: %w", err)
	}
	ts := cluster.TS(run.ResolvedTS("EBS backup success"))
	return ts, errors.Join(check(run, "EBS backup success", ts), o.checkSize(ctx, run))
}

// checkSize checks the size that the CR would show: the manager takes the number on the line of success for GiB.
func (o *Operator) checkSize(ctx context.Context, run *Run) error {
	meta, err := o.Download(ctx, "backupmeta")
	if err != nil {
		return err
	}
	d, err := manifest.ParseBR(meta)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, s := range d.TiKV.Stores {
		for _, v := range s.Volumes {
			named[v.SnapshotID] = true
		}
	}
	var want int64
	for _, s := range o.Bed.EC2.Snapshots() {
		if named[string(s.ID)] {
			want += s.SizeGiB
		}
	}
	if got := run.SizeGiB("EBS backup success"); got == 0 || got != want {
		return fmt.Errorf("the line of success has a size of %d GiB, and the volumes have %d", got, want)
	}
	return nil
}
