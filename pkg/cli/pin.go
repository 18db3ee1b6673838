package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/storage"
)

// pinDoc is the output of `tisnap pin` and `tisnap unpin`.
type pinDoc struct {
	header
	DryRun bool             `json:"dryRun"`
	Backup cluster.BackupID `json:"backup"`
	// Pin is the backup's after the command, or would be after it; nil after unpin.
	Pin *manifest.Pin `json:"pin,omitempty"`

	was *manifest.Pin // of unpin
}

func newPinDoc(dryRun bool, id cluster.BackupID, pin *manifest.Pin) *pinDoc {
	return &pinDoc{header: newHeader("BackupPin"), DryRun: dryRun, Backup: id, Pin: pin}
}

func (d *pinDoc) names() []string { return nameIf(true, "backup", d.Backup) }

func (d *pinDoc) table(w io.Writer, v view) error {
	would := ""
	if d.DryRun {
		would = "would be "
	}
	switch {
	case d.Pin != nil:
		_, err := fmt.Fprintf(w, "%s %s%s\n", oneLine(d.Backup), would, pinText(*d.Pin, v))
		return err
	case d.was == nil:
		_, err := fmt.Fprintf(w, "%s is not pinned\n", oneLine(d.Backup))
		return err
	}
	_, err := fmt.Fprintf(w, "%s %sunpinned (it is %s)\n", oneLine(d.Backup), would, pinText(*d.was, v))
	return err
}

// pinText is a pin for a table.
func pinText(p manifest.Pin, v view) string {
	until := ""
	if !p.Until.IsZero() {
		until = " until " + v.text(p.Until)
	}
	return "pinned" + until + ": " + oneLine(p.Reason)
}

type pinFlags struct {
	latest        latestFlags
	reason, until string
	force, dryRun bool
}

func (a *app) pinCommand() *cobra.Command {
	var f pinFlags
	cmd := &cobra.Command{
		Use:   "pin BACKUP --reason TEXT",
		Short: "Keep a backup from being deleted",
		Long: `Keep a backup from being deleted.

delete, prune and gc leave a pinned backup alone until tisnap unpin, or until the time of
--until. The pin is an object in the storage: it does not protect the snapshots in EC2, for
which see tisnap lock. A pin can be made longer, or get another reason, and is never made
shorter. A backup whose deletion has begun is refused.`,
		Example: `  tisnap pin prod-20261121-100000 --storage s3://backups/prod --reason "audit 2026"

  # for half a year
  tisnap pin latest --storage s3://backups/prod --reason "before the upgrade" --until 180d`,
		Args: exactly("BACKUP"), ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := catalog.PinRequest{Reason: strings.TrimSpace(f.reason), Force: f.force, DryRun: f.dryRun}
			if req.Reason == "" {
				return usage(cmd, errors.New("--reason is missing: why is the backup kept?"))
			}
			if f.until != "" {
				var err error
				if req.Until, err = parseUntil("until", f.until, time.Now()); err != nil {
					return usage(cmd, err)
				}
			}
			id, err := a.backupID(cmd, f.latest, args[0])
			if err != nil {
				return err
			}
			req.Backup = id
			return a.pin(cmd.Context(), req)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.reason, "reason", "", "why the backup is kept")
	fl.StringVar(&f.until, "until", "",
		"when the pin ends: 180d, 12h, 2027-11-01 or 2027-11-01T10:00:00Z (default: with tisnap unpin)")
	fl.BoolVar(&f.force, "force", false,
		"ignore a deletion that was announced, whose process you know to be dead")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print what would be pinned; change nothing")
	a.latestFlags(cmd, &f.latest)
	a.localFlag(cmd)
	return cmd
}

// parseUntil parses a time to come, or how long it is until then.
func parseUntil(flag, given string, now time.Time) (time.Time, error) {
	refused := func(why string) (time.Time, error) {
		return time.Time{}, fmt.Errorf("--%s %q: %s", flag, given, why)
	}
	at, err := time.Parse(time.RFC3339, given)
	if err != nil {
		at, err = time.Parse(time.DateOnly, given)
	}
	if days, ok := strings.CutSuffix(given, "d"); err != nil && ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil {
			at = now.AddDate(0, 0, min(max(n, 0), maxDays+1))
		}
	}
	if err != nil {
		var d time.Duration
		if d, err = time.ParseDuration(given); err == nil {
			at = now.Add(d)
		}
	}
	switch {
	case err != nil:
		return refused("want 30d, 12h, 2027-11-01 or 2027-11-01T10:00:00Z")
	case !at.After(now):
		return refused("that is over")
	case at.After(now.AddDate(0, 0, maxDays)):
		return refused(fmt.Sprintf("want at most %d days", maxDays))
	}
	return at.UTC().Truncate(time.Second), nil
}

// maxDays is how long EC2 locks a snapshot at most.
const maxDays = 36500

func (a *app) pin(ctx context.Context, req catalog.PinRequest) error {
	store, done, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := a.openToPin(ctx, store, "pin", req.DryRun); err != nil {
		return err
	}
	pin, err := catalog.Catalog{Store: store}.Pin(ctx, req)
	if err != nil {
		return err
	}
	return a.print(newPinDoc(req.DryRun, req.Backup, pin))
}

// openToPin refuses a copy of another storage and, unless it is a dry run, proves that the server honours conditional
// writes.
func (a *app) openToPin(ctx context.Context, store objstore.Store, op string, dryRun bool) error {
	open := func(ctx context.Context, store objstore.Store, _ string) (*storage.Storage, error) {
		return storage.Read(ctx, store)
	}
	if !dryRun {
		open = storage.Open
	}
	found, err := open(ctx, store, a.version.Version)
	if err != nil {
		return err
	}
	return found.RefuseCopy(op)
}

func (a *app) unpinCommand() *cobra.Command {
	var r removal
	cmd := &cobra.Command{
		Use:   "unpin BACKUP",
		Short: "Let a pinned backup be deleted again",
		Long: `Let a pinned backup be deleted again.

Nothing is deleted but the pin. On a terminal it shows the pin and asks; otherwise it needs
--yes. A backup that is not pinned succeeds.`,
		Example: "  tisnap unpin prod-20261121-100000 --storage s3://backups/prod --yes",
		Args:    exactly("BACKUP"), ValidArgsFunction: a.completePinned,
		RunE: func(cmd *cobra.Command, args []string) error {
			id := cluster.BackupID(args[0])
			if err := manifest.CheckID(id); err != nil {
				return usage(cmd, err)
			}
			if err := r.validateUndo("this unpins", a.asks()); err != nil {
				return usage(cmd, err)
			}
			return a.unpin(cmd.Context(), &r, id)
		},
	}
	r.addUndo(cmd.Flags(), "print what would be unpinned; change nothing")
	a.localFlag(cmd)
	return cmd
}

func (a *app) unpin(ctx context.Context, r *removal, id cluster.BackupID) error {
	store, done, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := a.openToPin(ctx, store, "unpin", true); err != nil {
		return err
	}
	backups := catalog.Catalog{Store: store}
	stored, version, err := backups.StoredPin(ctx, id)
	if err != nil {
		return err
	}
	doc := newPinDoc(r.dryRun, id, nil)
	if stored == nil {
		if _, err := backups.Load(ctx, id); failure.Is(err, failure.NotFound) {
			return err
		}
		return a.print(doc)
	}
	doc.was = &stored.Pin
	if err := a.confirmRemoval(ctx, r, fmt.Sprintf("unpin backup %s?", id), func() (document, error) {
		plan := *doc
		plan.DryRun = true
		return &plan, nil
	}); err != nil {
		return err
	}
	if !r.dryRun {
		if err := backups.Unpin(ctx, id, version); err != nil {
			return err
		}
	}
	return a.print(doc)
}

// completePinned offers the names of pinned backups in the shell.
func (a *app) completePinned(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
	defer cancel()
	store, done, err := a.openStore(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer done()
	pins, err := catalog.Catalog{Store: store}.Pins(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for id := range pins {
		names = append(names, string(id))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
