package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/manifest"
)

type deleteFlags struct {
	removal

	filter listFilter
	run    string
	last   bool
}

func (a *app) deleteCommand() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete {BACKUP... | -l SELECTOR}",
		Short: "Delete backups with their snapshots",
		Long: `Delete backups with their snapshots.

A backup is marked as deleted before its first snapshot is, so a partly deleted backup
can never be restored. On a terminal it shows what would be deleted and asks once; otherwise
it needs --yes. Run the command again, or tisnap gc, to finish a delete that failed
or was killed.

A backup stays, without any change, while a run is making or restoring it, if it is pinned
or one of its snapshots is locked, or if the cluster would have no restorable backup left
(override with --last). Of several backups the others are deleted, the oldest first, and the
exit code is that of the first refusal. If a name is unknown, nothing is deleted. If the
storage no longer has the backup, --run-id finds its snapshots by tag.`,
		Example: `  # what would be deleted
  tisnap delete prod-20261121-100000 --storage s3://backups/prod --dry-run

  # do it
  tisnap delete prod-20261121-100000 --storage s3://backups/prod --yes

  # all of one cluster that have the tag drill
  tisnap delete -l cluster=prod,drill --storage s3://backups/prod`,
		ValidArgsFunction: a.completeMoreBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := f.validate(args, a.asks())
			if err != nil {
				return usage(cmd, err)
			}
			if err := a.announce.validate(); err != nil {
				return usage(cmd, err)
			}
			if f.yes && !f.dryRun { // otherwise there is nothing to announce before the user confirms
				a.toAnnounce(cmd, nil)
			}
			if len(ids) == 1 {
				return a.deleteBackup(cmd, f, ids[0])
			}
			return a.deleteBackups(cmd, f, ids)
		},
	}
	f.filter.add(cmd, backupKeys)
	fl := cmd.Flags()
	fl.StringVar(&f.run, "run-id", "", "run that made it, if the storage no longer has it")
	fl.BoolVar(&f.last, "last", false, "delete even a cluster's only restorable backup")
	f.add(fl)
	a.notifyFlag(cmd)
	a.localFlag(cmd)
	return cmd
}

// validate checks the command line and returns the named backups, each once: none if the selector chooses them.
func (f *deleteFlags) validate(args []string, asks bool) ([]cluster.BackupID, error) {
	var ids []cluster.BackupID
	for _, arg := range args {
		id := cluster.BackupID(arg)
		if err := manifest.CheckID(id); err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	switch {
	case len(ids) == 0 && f.filter.selector == "":
		return nil, errors.New("BACKUP is missing: name one or more, or choose by --selector")
	case len(ids) > 0 && f.filter.selector != "":
		return nil, errors.New("--selector chooses the backups: do not name any")
	case len(ids) > 0 && f.filter.everywhere:
		return nil, errors.New("--all-namespaces goes with --selector")
	case f.run != "" && len(ids) != 1:
		return nil, errors.New("--run-id goes with one BACKUP")
	case f.run != "" && !runIDs().MatchString(f.run):
		return nil, fmt.Errorf("--run-id %q: want up to 40 lower-case letters, digits and hyphens", f.run)
	}
	return ids, f.removal.validate(asks)
}

func (a *app) deleteBackup(cmd *cobra.Command, f deleteFlags, id cluster.BackupID) error {
	ctx := cmd.Context()
	deps, done, err := a.gcDeps(ctx)
	if err != nil {
		return err
	}
	defer done()
	archives := a.archivesFrom(ctx, deps.Store, id) // before their reports are deleted
	o := gc.DeleteOptions{Backup: id, Run: cluster.RunID(f.run), Last: f.last, Rate: f.rate, DryRun: true}
	if err := a.confirmRemoval(ctx, &f.removal, fmt.Sprintf("delete backup %s?", id), func() (document, error) {
		plan, err := gc.Delete(ctx, deps, o)
		if err == nil && plan.Nothing {
			err = gc.NothingOf(id, plan.Near)
		}
		doc := newGCDoc("BackupDeletion", true, plan)
		doc.Archives = archives
		return doc, err
	}); err != nil {
		return err
	}
	defer a.removing(&f.removal)()
	o.DryRun = f.dryRun
	report, err := gc.Delete(ctx, deps, o)
	if err == nil && report.Nothing {
		err = gc.NothingOf(id, report.Near)
	}
	doc := newGCDoc("BackupDeletion", f.dryRun, report)
	doc.Backup = id
	if err == nil {
		doc.Archives = archives
	}
	if !f.dryRun {
		a.toAnnounce(cmd, doc)
	}
	return a.printGC(doc, err)
}

// deleteBackups deletes several backups, or those that the selector chooses.
func (a *app) deleteBackups(cmd *cobra.Command, f deleteFlags, ids []cluster.BackupID) error {
	ctx := cmd.Context()
	if len(ids) == 0 {
		chosen, err := a.chooseBackups(cmd, &f.filter)
		if err != nil {
			return err
		}
		if len(chosen) == 0 {
			return a.print(newDeletionsDoc(f.dryRun, &gc.BackupsReport{Backups: []gc.BackupOutcome{}}))
		}
		ids = chosen
	}
	deps, done, err := a.gcDeps(ctx)
	if err != nil {
		return err
	}
	defer done()
	archives := a.archivesFrom(ctx, deps.Store, ids...)
	o := gc.DeleteOptions{Last: f.last, Rate: f.rate, DryRun: true}
	if err := a.confirmRemoval(ctx, &f.removal, "delete these backups?", func() (document, error) {
		plan, err := gc.DeleteEach(ctx, deps, ids, o)
		if plan.Count(gc.ActionDelete) > 0 {
			err = nil // the plan shows what stays
		}
		return newDeletionsDoc(true, plan, archives...), err
	}); err != nil {
		return err
	}
	defer a.removing(&f.removal)()
	o.DryRun = f.dryRun
	report, err := gc.DeleteEach(ctx, deps, ids, o)
	doc := newDeletionsDoc(f.dryRun, report, archives...)
	if !f.dryRun {
		a.toAnnounce(cmd, doc)
	}
	return a.printDeletions(doc, err)
}

// chooseBackups returns the backups that the filter selects.
func (a *app) chooseBackups(cmd *cobra.Command, filter *listFilter) ([]cluster.BackupID, error) {
	match, err := filter.matcher(cmd, a.global.namespace)
	if err != nil {
		return nil, err
	}
	entries, checked, err := a.list(cmd.Context(), nil)
	checked.apply(entries)
	var ids []cluster.BackupID
	for _, e := range entries {
		if match(e.Cluster, backupLabels(e)) {
			ids = append(ids, e.ID)
		}
	}
	return ids, err
}
