package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/manifest"
)

type deleteFlags struct {
	removal

	run  string
	last bool
}

func (a *app) deleteCommand() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete BACKUP",
		Short: "Delete a backup with its snapshots",
		Long: `Delete a backup with its snapshots.

The backup is marked as deleted before its first snapshot is, so a partly deleted backup
can never be restored. On a terminal it shows what would be deleted and asks; otherwise it
needs --yes. Run the command again, or tisnap gc, to finish a delete that failed
or was killed.

It refuses, without changing anything, while a run is making or restoring the backup, if one
of its snapshots is locked, or if it is the cluster's only restorable backup (override with
--last). If the storage no longer has the backup, --run-id finds its snapshots by tag.`,
		Example: `  # what would be deleted
  tisnap delete prod-20261121-100000 --storage s3://backups/prod --dry-run

  # do it
  tisnap delete prod-20261121-100000 --storage s3://backups/prod --yes`,
		Args:              exactly("BACKUP"),
		ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(args[0], a.asks()); err != nil {
				return usage(cmd, err)
			}
			return a.deleteBackup(cmd, f, cluster.BackupID(args[0]))
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.run, "run-id", "", "run that made it, if the storage no longer has it")
	fl.BoolVar(&f.last, "last", false, "delete it even if it is the cluster's only restorable backup")
	f.add(fl)
	a.notifyFlag(cmd)
	return cmd
}

func (f *deleteFlags) validate(id string, asks bool) error {
	if err := manifest.CheckID(cluster.BackupID(id)); err != nil {
		return err
	}
	if f.run != "" && !runIDs().MatchString(f.run) {
		return fmt.Errorf("--run-id %q: want up to 40 lower-case letters, digits and hyphens", f.run)
	}
	return f.removal.validate(asks)
}

func (a *app) deleteBackup(cmd *cobra.Command, f deleteFlags, id cluster.BackupID) error {
	if err := a.announce.validate(); err != nil {
		return usage(cmd, err)
	}
	if f.yes && !f.dryRun { // otherwise there is nothing to announce before the user confirms
		a.toAnnounce(cmd, nil)
	}
	ctx := cmd.Context()
	deps, done, err := a.gcDeps(ctx)
	if err != nil {
		return err
	}
	defer done()
	o := gc.DeleteOptions{Backup: id, Run: cluster.RunID(f.run), Last: f.last, Rate: f.rate, DryRun: true}
	if err := a.confirmRemoval(ctx, &f.removal, fmt.Sprintf("delete backup %s?", id), func() (document, error) {
		plan, err := gc.Delete(ctx, deps, o)
		if err == nil && plan.Nothing {
			err = nothingOf(id, plan.Near)
		}
		return newGCDoc("BackupDeletion", true, plan), err
	}); err != nil {
		return err
	}
	defer a.removing(&f.removal)()
	o.DryRun = f.dryRun
	report, err := gc.Delete(ctx, deps, o)
	if err == nil && report.Nothing {
		err = nothingOf(id, report.Near)
	}
	doc := newGCDoc("BackupDeletion", f.dryRun, report)
	doc.Backup = id
	if !f.dryRun {
		a.toAnnounce(cmd, doc)
	}
	return a.printGC(doc, err)
}

// nothingOf is the error about a backup of which neither the storage nor EC2 has anything.
func nothingOf(id cluster.BackupID, near []string) error {
	err := failure.New(failure.NotFound, "delete backup", string(id), "nothing of it was found")
	if len(near) > 0 {
		return err.WithHint("did you mean %s? see `tisnap list`", strings.Join(near, ", "))
	}
	return err.WithHint("see `tisnap list`")
}
