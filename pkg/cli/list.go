package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runs"
)

// listDoc is the output of `tisnap list`.
type listDoc struct {
	header
	Items []listItem `json:"items"`

	now time.Time
}

func (a *app) listCommand() *cobra.Command {
	var filter listFilter
	var check bool
	var verifyKey string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the backups in a storage",
		Long: `List the backups in a storage, oldest first, with their state: sealed ones can be restored,
others show their run, which is running, dead, or failed; damaged ones cannot be read. --check asks EC2
whether the snapshots of this region's sealed backups exist, as tisnap gc does: a backup that
lacks one is broken, and the command exits with 10. Without it, list shows what the last
--check on this machine found. --verify-key also reads each manifest: a sealed backup that
this key did not sign is untrusted, and the command exits with 10. Nothing is changed.`,
		Example: "  tisnap list --storage s3://backups/prod\n  tisnap list --storage s3://backups/prod -o json\n  " +
			"tisnap list --storage s3://backups/prod --check",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			match, err := filter.matcher(cmd, a.global.namespace)
			if err != nil {
				return err
			}
			key, err := readVerifyKey(verifyKey)
			if err != nil {
				return err
			}
			items, checked, err := a.list(cmd.Context(), key)
			if err != nil {
				return err
			}
			var broken error
			if check {
				if broken, err = a.checkBackups(cmd.Context(), items, checked); err != nil {
					return err
				}
			} else {
				checked.apply(items)
			}
			chosen := []listItem{}
			shown, err := a.withRuns(cmd.Context(), items)
			if err != nil {
				return err
			}
			for _, e := range shown {
				if match(e.Cluster, backupLabels(e.Entry)) {
					chosen = append(chosen, e)
				}
			}
			if !slices.ContainsFunc(chosen, func(e listItem) bool { return e.State == catalog.StateBroken }) {
				broken = nil
			}
			err = a.print(&listDoc{header: newHeader("BackupList"), Items: chosen, now: time.Now()})
			return errors.Join(broken, untrusted(chosen, key), err)
		},
	}
	a.localFlag(cmd)
	filter.add(cmd, backupKeys)
	cmd.Flags().BoolVar(&check, "check", false,
		"ask EC2 whether the snapshots of sealed backups exist; a backup that lacks one is broken")
	cmd.Flags().StringVar(&verifyKey, "verify-key", "",
		"minisign public key or key file: sealed backups that it did not sign are untrusted")
	return cmd
}

// checkBackups marks and caches the sealed backups whose snapshots are gone. broken names them.
func (a *app) checkBackups(ctx context.Context, items []catalog.Entry, checked checkCache) (broken, err error) {
	deps, done, err := a.gcDeps(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	gone, err := gc.Check(ctx, deps)
	if err != nil && len(gone) == 0 {
		return nil, err
	}
	found := checkResult{At: time.Now().UTC(), Gone: gone}
	checked.save(found)
	found.apply(items)
	return err, nil
}

// untrusted returns an error that names the backups that the key did not sign; nil if there are none.
func untrusted(items []listItem, key *manifest.VerifyKey) error {
	var ids []string
	for _, e := range items {
		if e.State == catalog.StateUntrusted {
			ids = append(ids, string(e.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return failure.New(failure.Corrupt, "verify backups", "",
		"%d are not signed with key %s, or were changed since: %s", len(ids), key.ID(), failure.List(ids)).
		WithHint("do not restore any of them before you know why: see tisnap describe BACKUP --verify-key KEY")
}

// list reads the backups. With a key those that it did not sign are untrusted.
func (a *app) list(ctx context.Context, key *manifest.VerifyKey) ([]catalog.Entry, checkCache, error) {
	store, done, err := a.openStore(ctx)
	if err != nil {
		return nil, checkCache{}, err
	}
	defer done()
	backups := catalog.Catalog{Store: store, VerifyKey: key}
	items, err := backups.List(ctx)
	if err == nil && key != nil {
		err = backups.VerifyEach(ctx, items)
	}
	return items, checkCache{a.global.historyCache(store)}, err
}

func (d *listDoc) table(w io.Writer, v view) error {
	if len(d.Items) == 0 {
		_, err := fmt.Fprintln(w, "no backups")
		return err
	}
	t := newTable(v.heading("BACKUP TIME"), "NAME", "CLUSTER", "STATE", "SIZE", "STORES", "SNAPSHOTS", "AGE",
		"BACKUP-TS", "DATA", "VERSION", "OPERATOR", "RUN", "TAGS", "LOGS", "PINNED")
	t.more = []string{"BACKUP-TS", "DATA", "VERSION", "OPERATOR", "RUN", "TAGS", "LOGS", "PINNED"}
	t.drop = []string{"SNAPSHOTS", "STORES", "AGE", "SIZE", "CLUSTER", v.heading("BACKUP TIME")}
	for _, e := range d.Items {
		of, at, ts, age, data := "", "", "", "", ""
		if e.Cluster != (cluster.Name{}) {
			of = e.Cluster.String()
		}
		if e.BackupTS != 0 {
			at, ts = v.cell(e.BackupTS.Time()), e.BackupTS.String()
		}
		if !e.CreatedAt.IsZero() {
			age = d.now.Sub(e.CreatedAt).Truncate(time.Second).String()
		}
		if e.DataBytes > 0 {
			data = report.Bytes(e.DataBytes)
		}
		t.row(at, e.ID, of, e.shown(), gib(e.SizeGiB), e.Stores, e.Snapshots, age, ts, data, e.Version, e.Operator,
			e.Run, strings.Join(e.Tags, ","), strings.Join(e.CoveredBy, ","), e.pinned(v))
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	for _, e := range d.Items {
		if e.Problem == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s is %s: %s\n", oneLine(e.ID), e.State, oneLine(e.Problem)); err != nil {
			return err
		}
	}
	return nil
}

// gib is the size of EBS volumes; "" if it is unknown.
func gib(n int64) string {
	if n <= 0 {
		return ""
	}
	return humanize.Comma(n) + " GiB"
}

// listItem is a backup and, unless it is sealed, how the run that makes it stands.
type listItem struct {
	catalog.Entry
	RunState runs.State    `json:"runState,omitempty"`
	Pin      *manifest.Pin `json:"pin,omitempty"`

	silent bool
}

// shown returns the state for users; scripts get the state and "runState".
func (i *listItem) shown() string {
	if i.RunState == "" || i.State != catalog.StateUnsealed {
		return string(i.State)
	}
	return shown(&runs.Run{State: i.RunState, Silent: i.silent})
}

// pinned is when the backup's pin ends, and why it is pinned; "" if it is not.
func (i *listItem) pinned(v view) string {
	switch {
	case i.Pin == nil:
		return ""
	case i.Pin.Until.IsZero():
		return oneLine(i.Pin.Reason)
	}
	return "until " + v.text(i.Pin.Until) + ": " + oneLine(i.Pin.Reason)
}

// withRuns reads the pins, and how the runs of unsealed backups stand. A run without a journal leaves its backup as it
// is.
func (a *app) withRuns(ctx context.Context, entries []catalog.Entry) ([]listItem, error) {
	store, done, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	pins, err := catalog.Catalog{Store: store}.Pins(ctx)
	if err != nil {
		return nil, err
	}
	items := make([]listItem, len(entries))
	for i, e := range entries {
		items[i].Entry = e
		if pin := pins[e.ID]; pin != nil && pin.Of(e.Run) {
			items[i].Pin = &pin.Pin
		}
		if e.State != catalog.StateUnsealed || e.Run == "" {
			continue
		}
		r, err := runs.Read(ctx, store, e.Run)
		switch {
		case failure.Is(err, failure.NotFound), failure.Is(err, failure.Corrupt):
		case err != nil:
			return nil, err
		default:
			items[i].RunState, items[i].silent = r.State, r.Silent
		}
	}
	return items, nil
}

// completeBackups offers the names of sealed backups in the shell.
func (a *app) completeBackups(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeMoreBackups(cmd, args, "")
}

// completeMoreBackups is completeBackups for a command that takes several.
func (a *app) completeMoreBackups(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
	defer cancel()
	items, _, err := a.list(ctx, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, e := range items {
		if e.State == catalog.StateSealed {
			names = append(names, string(e.ID))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
