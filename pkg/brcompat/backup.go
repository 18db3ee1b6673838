package brcompat

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
)

// backupFlags are those of `backup full` alone.
type backupFlags struct {
	Type           string
	VolumeFile     string
	ProgressFile   string
	OtherHolds     bool
	APIConcurrency uint
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
			return a.backup(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Type, "type", "kv", "full backup type: "+typeEBS)
	fl.StringVar(&f.VolumeFile, "volume-file", "./backup.json", "file that names the stores and their volumes")
	fl.StringVar(&f.ProgressFile, "progress-file", "progress.txt", "file for the progress")
	fl.BoolVar(&f.OtherHolds, "operator-paused-gc-and-scheduler", false, "another process holds the cluster, by br operator pause-gc-and-schedulers")
	fl.UintVar(&f.APIConcurrency, "cloud-api-concurrency", 8, "calls to AWS at the same time")
	defineOthers(fl, backupOthers())
	return cmd
}

func (a *app) backup(context.Context, backupFlags) error {
	return failure.New(failure.Unready, "backup", "", "not supported yet")
}
