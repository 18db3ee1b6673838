package cli

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// estimateFlags describe what is estimated, where no backup does.
type estimateFlags struct {
	stores, volumes  int
	data, changed    string
	kind             string
	iops, throughput int64
	size             int64
	rate             int64
	fsr, writes      bool
	otherRegion      bool
	prices           string
}

func (a *app) estimateCommand() *cobra.Command {
	var f estimateFlags
	cmd := &cobra.Command{
		Use:         "estimate",
		Annotations: without("name"),
		Short:       "Estimate how long a backup and a restore take and what AWS charges for them",
		Long: `Estimate how long a backup and a restore take, per phase and with a range, what AWS charges for each item, and
how both depend on the volumes. Times come from the published tables, scaled to the storage's own runs once it
has five or more. Nothing is changed, and nothing is contacted without --storage.`,
		Example: `  tisnap estimate --stores 20 --data 1TiB --volume-type gp3 --volume-iops 7000 --volume-throughput 400
  tisnap estimate backup tidb/prod --storage s3://backups/prod
  tisnap estimate restore prod-20261121-100000 --storage s3://backups/prod --volume-type io2 --volume-iops 16000`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.stores == 0 || f.data == "" {
				return usage(cmd,
					fmt.Errorf("set --stores and --data, or use `tisnap estimate backup CLUSTER` or `restore BACKUP`"))
			}
			return a.estimate(cmd, f, []report.Operation{report.Backup, report.Restore},
				func(context.Context, objstore.Store, *history.Reader) (estimate.Input, error) {
					return estimate.Input{}, nil
				})
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "backup CLUSTER", Short: "Estimate a cluster's next backup from its last one",
			Args: exactly("CLUSTER"), ValidArgsFunction: a.completeClusters,
			Example: "  tisnap estimate backup tidb/prod --storage s3://backups/prod --changed 200GiB",
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.estimate(cmd, f, []report.Operation{report.Backup}, a.lastBackup(args[0]))
			},
		},
		&cobra.Command{
			Use: "restore BACKUP", Short: "Estimate the restore of a backup", Args: exactly("BACKUP"),
			ValidArgsFunction: a.completeBackups,
			Example: "  tisnap estimate restore prod-20261121-100000 --storage s3://backups/prod " +
				"--volume-iops 7000 --volume-throughput 400",
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.estimate(cmd, f, []report.Operation{report.Restore}, restoreInput(cluster.BackupID(args[0])))
			},
		})
	f.add(cmd)
	return cmd
}

func (f *estimateFlags) add(cmd *cobra.Command) {
	fl := cmd.PersistentFlags()
	fl.IntVar(&f.stores, "stores", 0, "TiKV stores (default: the backup's)")
	fl.IntVar(&f.volumes, "volumes", 0, "total volumes of all stores (default: the backup's, or one per store)")
	fl.StringVar(&f.data, "data", "", "data on each store, such as 1TiB or 500GiB (default: the backup's)")
	fl.StringVar(&f.changed, "changed", "",
		"data on each store that changed since the last backup (default: as between the last two, by their "+
			"marks, or all)")
	choose(cmd, fl, &f.kind, "volume-type", optional(volumes.Types()...),
		"type of the volumes (default: the backup's, or gp3)")
	fl.Int64Var(&f.iops, "volume-iops", 0, "IOPS of each volume (default: the backup's, or the type's)")
	fl.Int64Var(&f.throughput, "volume-throughput", 0,
		"MiB/s of each gp3 volume (default: the backup's, or the type's)")
	fl.Int64Var(&f.size, "volume-size", 0, "GiB of each volume (default: the backup's, or three times its data)")
	fl.Int64Var(&f.rate, "initialization-rate", 0, "MiB/s at which EC2 initializes each volume (default: on read)")
	fl.BoolVar(&f.fsr, "fsr", false, "with fast snapshot restore")
	fl.BoolVar(&f.writes, "writes", true,
		"assume writes during the backup, so that RocksDB replays its logs on restore")
	fl.BoolVar(&f.otherRegion, "other-region", false, "the snapshots are copied to another region")
	fl.StringVar(&f.prices, "prices", "", "TOML file with prices (default: built-in us-east-1 prices)")
	// Short forms, unambiguous here.
	fl.Int64Var(&f.iops, "iops", 0, "the same as --volume-iops")
	fl.Int64Var(&f.throughput, "throughput", 0, "the same as --volume-throughput")
}

// over overrides the backup's values with those of the flags.
func (f *estimateFlags) over(in estimate.Input) (estimate.Input, error) {
	set(&in.Stores, f.stores)
	set(&in.Volumes, f.volumes)
	set(&in.Spec.Type, f.kind)
	if f.kind != "" {
		in.Spec.IOPS, in.Spec.ThroughputMiB = 0, 0
	}
	set(&in.Spec.IOPS, f.iops)
	set(&in.Spec.ThroughputMiB, f.throughput)
	set(&in.Spec.SizeGiB, f.size)
	if f.size != 0 || f.stores != 0 || f.volumes != 0 {
		in.SizesGiB = 0
	}
	in.InitializationMiB, in.FastRestore, in.Writes, in.OtherRegion = f.rate, f.fsr, f.writes, f.otherRegion
	for _, row := range []struct {
		flag, text string
		to         *int64
	}{{"data", f.data, &in.DataBytes}, {"changed", f.changed, &in.ChangedBytes}} {
		if row.text == "" {
			continue
		}
		n, err := humanize.ParseBytes(row.text)
		if err != nil || n == 0 || n > 1<<50 {
			return in, failure.New(failure.Usage, "read --"+row.flag, row.text, "want a size such as 1TiB or 500GiB")
		}
		*row.to = int64(n) * int64(max(in.Stores, 1))
	}
	if f.data != "" {
		in.LargestBytes = 0
	}
	if f.iops < 0 || f.throughput < 0 || f.size < 0 || f.rate < 0 || f.stores < 0 || f.volumes < 0 {
		return in, failure.New(failure.Usage, "estimate", "", "numbers must not be negative")
	}
	return in, nil
}

// set overrides a value unless the new one is zero.
func set[T comparable](to *T, value T) {
	var zero T
	if value != zero {
		*to = value
	}
}

// inputFunc returns what the estimated run works on, as far as the storage knows.
type inputFunc func(context.Context, objstore.Store, *history.Reader) (estimate.Input, error)

// estimate prints the estimates for the operations on input, as overridden by the flags.
func (a *app) estimate(cmd *cobra.Command, f estimateFlags, ops []report.Operation, input inputFunc) error {
	prices, err := estimate.ReadPrices(f.prices)
	if err != nil {
		return err
	}
	var in estimate.Input
	var fit *estimate.Fit
	if a.global.storage != "" || cmd.HasParent() && cmd.Parent().Name() == "estimate" {
		store, done, err := a.openStore(cmd.Context())
		if err != nil {
			return err
		}
		defer done()
		reader := history.Open(store)
		cache := a.global.historyCache(store)
		cache.load(reader)
		defer cache.save(reader)
		if in, err = input(cmd.Context(), store, reader); err != nil {
			return err
		}
		if fit, err = fitTo(cmd.Context(), reader); err != nil {
			return err
		}
	}
	if in, err = f.over(in); err != nil {
		return err
	}
	doc := &estimateDoc{header: newHeader("Estimate")}
	for _, op := range ops {
		in.Operation = op
		if err := doc.add(in, fit, prices); err != nil {
			return err
		}
	}
	return a.print(doc)
}

// lastBackup returns what the cluster's last backup worked on.
func (a *app) lastBackup(arg string) inputFunc {
	return func(ctx context.Context, store objstore.Store, reader *history.Reader) (estimate.Input, error) {
		name, err := a.global.clusterName(arg)
		if err != nil {
			return estimate.Input{}, err
		}
		return lastBackupOf(ctx, store, reader, name)
	}
}
