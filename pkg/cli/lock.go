package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/lockset"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// lockSetDoc is the output of `tisnap lock` and `tisnap unlock`.
type lockSetDoc struct {
	header
	DryRun bool             `json:"dryRun"`
	Backup cluster.BackupID `json:"backup"`
	*lockset.Report
}

func newLockSetDoc(kind string, dryRun bool, id cluster.BackupID, r *lockset.Report) *lockSetDoc {
	return &lockSetDoc{header: newHeader(kind), DryRun: dryRun, Backup: id, Report: r}
}

func (d *lockSetDoc) names() []string { return nameIf(true, "backup", d.Backup) }

func (d *lockSetDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "ROLE", "SNAPSHOT", "ACTION", "LOCK", v.heading("UNTIL"), "ERROR")
	t.drop = []string{"ROLE", "STORE"}
	for _, it := range d.Items {
		until := ""
		if !it.ExpiresAt.IsZero() {
			until = v.cell(it.ExpiresAt)
		}
		t.row(it.Store, it.Role, it.Snapshot, it.Action, it.Mode, until, oneLine(it.Error))
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	_, err := io.WriteString(w, d.objects(v))
	return err
}

// objects is whether the backup's objects are kept, too; "" after an unlock.
func (d *lockSetDoc) objects(v view) string {
	o := d.Objects
	switch {
	case o.Unkept != "":
		return fmt.Sprintf("\nthe manifest can still be deleted: %s\n", oneLine(o.Unkept))
	case len(o.Kept) == 0:
		return ""
	case d.DryRun:
		return fmt.Sprintf("\nObject Lock would keep %d objects of the backup (%s) until %s\n", len(o.Kept), o.Mode,
			v.text(o.Until))
	}
	return fmt.Sprintf("\nObject Lock keeps %d objects of the backup (%s) until %s\n", len(o.Kept), o.Mode,
		v.text(o.Until))
}

// printLocks prints what became of each snapshot even if not all of them could be changed.
func (a *app) printLocks(d *lockSetDoc, err error) error {
	if d.Report == nil {
		return err
	}
	return errors.Join(err, a.print(d))
}

type lockFlags struct {
	latest               latestFlags
	mode, until, confirm string
	coolOff              time.Duration
	dryRun               bool
}

func (a *app) lockCommand() *cobra.Command {
	var f lockFlags
	cmd := &cobra.Command{
		Use:   "lock BACKUP --until DATE",
		Short: "Lock a backup's snapshots in EC2 until a date",
		Long: `Lock a backup's snapshots in EC2 until a date: all of them, with EBS Snapshot Lock.

A locked snapshot cannot be deleted, whatever the permissions; delete, prune and gc refuse its
backup. A lock in governance mode can be removed by who may call ec2:UnlockSnapshot. One in
compliance mode cannot be removed, even by AWS, once its --cool-off is over; without --cool-off
that is at once. Then the backup's name has to be typed, or given by --confirm.

A lock is only made longer or stronger. If a snapshot cannot be locked, the others are, the
exit code is 3, and the same command finishes the set. Nothing is deleted. In a bucket with
Object Lock the backup's manifest, marks and seal are kept until the same date.`,
		Example: `  tisnap lock prod-20261121-100000 --storage s3://backups/prod --until 30d

  # can be undone for three days, and not at all after that
  tisnap lock latest --storage s3://backups/prod --mode compliance --until 2027-06-01 --cool-off 72h`,
		Args: exactly("BACKUP"), ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(time.Now())
			if err != nil {
				return usage(cmd, err)
			}
			if o.Backup, err = a.backupID(cmd, f.latest, args[0]); err != nil {
				return err
			}
			return a.lock(cmd, f, o)
		},
	}
	fl := cmd.Flags()
	choose(cmd, fl, &f.mode, "mode", []string{ebs.LockGovernance, ebs.LockCompliance},
		"who can remove the lock: those who may call ec2:UnlockSnapshot, or no one")
	fl.StringVar(&f.until, "until", "", "when the locks expire: 30d, 12h, 2027-06-01 or 2027-06-01T10:00:00Z")
	fl.DurationVar(&f.coolOff, "cool-off", 0,
		"with --mode compliance: how long new locks can still be removed, 1h to 72h (default: not at all)")
	fl.StringVar(&f.confirm, "confirm", "",
		"the backup's name, for locks that cannot be removed, instead of typing it")
	fl.BoolVar(&f.dryRun, "dry-run", false, "check everything and print what would be locked; change nothing")
	a.latestFlags(cmd, &f.latest)
	a.localFlag(cmd)
	return cmd
}

func (f *lockFlags) options(now time.Time) (o lockset.Options, err error) {
	if f.until == "" {
		return o, errors.New("--until is missing: when do the locks expire?")
	}
	until, err := parseUntil("until", f.until, now)
	switch {
	case err != nil:
		return o, err
	case f.coolOff != 0 && f.mode != ebs.LockCompliance:
		return o, errors.New("--cool-off goes with --mode compliance: another lock can be removed at any time")
	case f.coolOff < 0 || f.coolOff > ebs.MaxCoolOff || f.coolOff%time.Hour != 0:
		return o, fmt.Errorf("--cool-off %s: want 1 to 72 whole hours", f.coolOff)
	}
	return lockset.Options{Mode: f.mode, Until: until, CoolOff: f.coolOff, DryRun: f.dryRun}, nil
}

func (a *app) lock(cmd *cobra.Command, f lockFlags, o lockset.Options) error {
	ctx := cmd.Context()
	e, store, done, err := a.openSet(ctx, o.Backup)
	if err != nil {
		return err
	}
	defer done()
	if err := a.openToPin(ctx, store, "lock", true); err != nil {
		return err
	}
	backups := catalog.Catalog{Store: store}
	plan := o
	plan.DryRun = true
	report, err := lockset.Lock(ctx, e, backups, plan)
	if err != nil || f.dryRun {
		return a.printLocks(newLockSetDoc("BackupLock", true, o.Backup, report), err)
	}
	if report.Final {
		if err := a.confirmFinal(ctx, f.confirm, o, report); err != nil {
			return err
		}
	}
	defer a.unfinished("lock", "run the same command again: it finishes the set")()
	report, err = lockset.Lock(ctx, e, backups, o)
	return a.printLocks(newLockSetDoc("BackupLock", false, o.Backup, report), err)
}

// confirmFinal requires the backup's name, typed or by --confirm, for locks that cannot be removed.
func (a *app) confirmFinal(ctx context.Context, given string, o lockset.Options, plan *lockset.Report) error {
	refused := func(format string, args ...any) *failure.Error {
		return failure.New(failure.Usage, "lock backup", string(o.Backup), format, args...)
	}
	if given == "" && a.asks() {
		doc := newLockSetDoc("BackupLock", true, o.Backup, plan)
		if err := write(a.streams.Err, "table", doc, a.view()); err != nil {
			return err
		}
		var err error
		given, err = a.ask(ctx, fmt.Sprintf(
			"These locks cannot be removed before %s, even by AWS. Type the backup's name: ", a.view().text(o.Until)))
		if err != nil {
			return err
		}
	} else if given == "" {
		return refused("these locks cannot be removed before %s, even by AWS", o.Until.Format(time.RFC3339)).
			WithHint("pass --confirm %s, or lock with --cool-off", o.Backup)
	}
	if given != string(o.Backup) {
		return refused("%q is not its name; nothing was changed", given)
	}
	return nil
}

// openSet connects to the storage, and to EC2 in the region of the backup's snapshots. done closes the connections.
func (a *app) openSet(
	ctx context.Context, id cluster.BackupID,
) (e *ebs.Client, store objstore.Store, done func(), err error) {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return nil, nil, nil, err
	}
	if store, err = c.store(ctx); err == nil {
		var m *manifest.Manifest
		if m, err = (catalog.Catalog{Store: store}).Unsealed(ctx, id); err == nil {
			e, err = c.ebsAt(ctx, ebs.Config{Region: m.Region})
		} else if _, loadErr := (catalog.Catalog{Store: store}).Load(ctx, id); loadErr != nil {
			err = noBackup(ctx, store, id, loadErr) // it is more precise
		}
	}
	if err != nil {
		c.close()
		return nil, nil, nil, err
	}
	return e, store, c.close, nil
}

func (a *app) unlockCommand() *cobra.Command {
	var r removal
	cmd := &cobra.Command{
		Use:   "unlock BACKUP",
		Short: "Remove the locks of a backup's snapshots",
		Long: `Remove the locks of a backup's snapshots: those in governance mode, and those in compliance
mode whose cool-off is not over. If one snapshot's lock cannot be removed, none is.

It needs ec2:UnlockSnapshot, which the policy of tisnap's role leaves out on purpose. On a
terminal it shows the locks and asks; otherwise it needs --yes. A backup without locks
succeeds, and the same command finishes an unlock that failed or was killed.`,
		Example: "  tisnap unlock prod-20261121-100000 --storage s3://backups/prod --yes",
		Args:    exactly("BACKUP"), ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			id := cluster.BackupID(args[0])
			if err := manifest.CheckID(id); err != nil {
				return usage(cmd, err)
			}
			if err := r.validateUndo("this removes locks", a.asks()); err != nil {
				return usage(cmd, err)
			}
			return a.unlock(cmd.Context(), &r, id)
		},
	}
	r.addUndo(cmd.Flags(), "print what would be unlocked; change nothing")
	a.localFlag(cmd)
	return cmd
}

func (a *app) unlock(ctx context.Context, r *removal, id cluster.BackupID) error {
	e, store, done, err := a.openSet(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	if err := a.openToPin(ctx, store, "unlock", true); err != nil {
		return err
	}
	backups := catalog.Catalog{Store: store}
	if err := a.confirmRemoval(ctx, r, fmt.Sprintf("unlock backup %s?", id), func() (document, error) {
		plan, err := lockset.Unlock(ctx, e, backups, id, true)
		return newLockSetDoc("BackupUnlock", true, id, plan), err
	}); err != nil {
		return err
	}
	if !r.dryRun {
		defer a.unfinished("unlock", "run the same command again: it finishes the set")()
	}
	report, err := lockset.Unlock(ctx, e, backups, id, r.dryRun)
	return a.printLocks(newLockSetDoc("BackupUnlock", r.dryRun, id, report), err)
}
