package brcompat

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// backupFlags are specific to `backup full`.
type backupFlags struct {
	Type         string
	VolumeFile   string
	ProgressFile string
	OtherHolds   bool
	EarlyApply   string
}

func (a *app) backupCommand() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "full",
		Short: "Snapshot the volumes of all TiKV stores",
		Args:  a.noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wantType(f.Type); err != nil {
				return err
			}
			if err := required("storage", a.common.Storage); err != nil {
				return err
			}
			if _, err := backup.ParseEarlyApplyPolicy(f.EarlyApply); err != nil {
				return err
			}
			a.bound(BackupGrace)
			return a.backup(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Type, "type", "kv", "full backup type: "+typeEBS)
	fl.StringVar(&f.VolumeFile, "volume-file", "./backup.json", "file that names the stores and their volumes")
	fl.StringVar(&f.ProgressFile, "progress-file", "progress.txt", "file for the progress")
	fl.BoolVar(&f.OtherHolds, "operator-paused-gc-and-scheduler", false,
		"another process holds the cluster, by br operator pause-gc-and-schedulers")
	earlyApplyFlag(fl, &f.EarlyApply)
	defineOthers(fl, backupOthers())
	return cmd
}

// backup takes the backup, and prints the line that the Operator waits for only once it is sealed.
func (a *app) backup(ctx context.Context, f backupFlags) error {
	file, err := readVolumeFile(f.VolumeFile, a.common.target())
	if err != nil {
		return err
	}
	if err := a.checkMember(file, f); err != nil {
		return err
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.close()
	deps, err := a.backupDeps(ctx, c, file)
	if err != nil {
		return err
	}
	opts, err := a.backupOptions(file, f)
	if err != nil {
		return err
	}
	p := newProgress(ctx, f.ProgressFile, a.log.Logger, map[string]float64{"wait": 1})
	deps.Sink = events{log: a.log.Logger, next: p}
	result := &backup.Result{}
	if err = a.endEarlierPause(ctx, deps, &opts); err == nil {
		a.logStarted(opts.Run, "backup full")
		result, err = backup.Run(ctx, deps, opts)
	}
	return a.concludeBackup(p, opts.Backup, result, err)
}

// concludeBackup reports the outcome. An unsealed backup is an error whatever its run returned: to the Operator exit
// code 0 means a backup.
func (a *app) concludeBackup(p *progress, id cluster.BackupID, result *backup.Result, err error) error {
	if err == nil && !result.Sealed {
		err = failure.New(failure.Unready, "back up", string(id),
			"the run succeeded, but the backup is not sealed").
			WithHint("take another backup, and report this")
	}
	done := result.Sealed && (err == nil || failure.Is(err, failure.Partial))
	p.close(done)
	if !done {
		a.log.print("EBS backup failed, please check the log for details.")
		return err
	}
	if err != nil {
		a.log.Warn("the backup completed with warnings that need attention", zap.Error(err))
	}
	// Like br's, the size is the volumes' in GiB; the Operator converts it to bytes.
	a.log.print("EBS backup success", zap.Int64("size", result.Manifest.SizeGiB()),
		zap.Uint64("resolved_ts", uint64(result.Manifest.BackupTS)),
		zap.Duration("cut", result.Hold.Cut), zap.String("backup", string(id)))
	return nil
}

// checkMember logs what was read, and refuses to back up part of a cluster unless all of it is held: the parts would be
// from different times.
func (a *app) checkMember(file *volumeFile, f backupFlags) error {
	a.log.Info("volume file read", zap.Stringer("cluster", file.name), zap.Int("stores", len(file.TiKV.Stores)),
		zap.Int("stores-elsewhere", len(file.elsewhere)))
	if len(file.dropped) > 0 {
		a.log.Warn("omitting unused volumes from the backup's document: a restore would fail on them",
			zap.Strings("dropped", file.dropped))
	}
	if len(file.elsewhere) > 0 && !f.OtherHolds {
		return failure.New(failure.Unready, "backup", file.name.String(),
			"%d of its stores are in other Kubernetes clusters", len(file.elsewhere)).
			WithHint("use a VolumeBackup, which holds the whole cluster with --operator-paused-gc-and-scheduler")
	}
	return nil
}

func (a *app) backupDeps(ctx context.Context, c *connections, file *volumeFile) (backup.Deps, error) {
	deps := backup.Deps{Log: c.log, TiKV: c.tikv(), EarlyApply: c.tikv(), Remains: &a.left}
	store, err := c.store(ctx)
	if err != nil {
		return deps, err
	}
	e, err := c.ebs(ctx)
	if err != nil {
		return deps, err
	}
	p, err := c.pd(ctx)
	if err != nil {
		return deps, err
	}
	deps.Store, deps.EBS, deps.PD = store, e, p
	deps.Kube = &described{file: file, ebs: e, pd: a.common.PD}
	return deps, nil
}

func (a *app) backupOptions(file *volumeFile, f backupFlags) (backup.Options, error) {
	run, err := journal.NewRunID(time.Now())
	if err != nil {
		return backup.Options{}, err
	}
	policy, err := backup.ParseEarlyApplyPolicy(f.EarlyApply)
	if err != nil {
		return backup.Options{}, err
	}
	doc, err := file.Encode()
	if err != nil {
		return backup.Options{}, err
	}
	opts := backup.Options{
		Cluster: file.name, Backup: cluster.BackupID("br-" + string(run)), Run: run,
		Owner: runlock.NewOwner(run, "br backup"), Tool: a.version.Version,
		OtherHolds: f.OtherHolds, ClusterMeta: doc, EarlyApply: policy,
	}
	if f.OtherHolds {
		opts.HoldAttempts = 1 // only the other process could hold again
	}
	return opts, nil
}
