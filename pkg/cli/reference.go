package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// latestFlags define which backup "latest" is. They are the same for every command that takes a backup.
type latestFlags struct{ before, of string }

// latestIs is the hidden flag by which a background process gets the backup that its command has found latest to be: a
// newer one may be sealed meanwhile.
const latestIs = "latest-is"

func (a *app) latestFlags(cmd *cobra.Command, f *latestFlags) {
	cmd.Flags().StringVar(&f.before, "before", "",
		"with latest: the newest backup that is not after this, such as 2026-11-22T10:00:00Z, \"2h ago\" or 3d")
	cmd.Flags().StringVar(&f.of, "of", "",
		"with latest: the cluster that was backed up, if the storage has backups of several")
	cmd.Flags().String(latestIs, "", "the backup that latest was found to be")
	_ = cmd.Flags().MarkHidden(latestIs) // fails only for an unknown flag
	a.offer(cmd, "of", a.completeMoreClusters)
}

// chosen is the argument with its flags if it is a reference, and "" if it is a backup's name.
func (f latestFlags) chosen(arg string) string {
	if arg != catalog.Latest {
		return ""
	}
	for _, flag := range []struct{ name, value string }{{"before", f.before}, {"of", f.of}} {
		if flag.value != "" {
			arg += " --" + flag.name + " " + flag.value
		}
	}
	return arg
}

// backupID returns the backup of the storage that the argument refers to, and prints what "latest" was found to be.
func (a *app) backupID(cmd *cobra.Command, f latestFlags, arg string) (cluster.BackupID, error) {
	return a.backupAmong(cmd, f, arg, func(ctx context.Context) ([]catalog.Entry, error) {
		entries, checked, err := a.list(ctx, nil)
		if err == nil {
			checked.apply(entries)
		}
		return entries, err
	})
}

// backupAmong is the same of the backups that list returns.
func (a *app) backupAmong(
	cmd *cobra.Command, f latestFlags, arg string, list func(context.Context) ([]catalog.Entry, error),
) (cluster.BackupID, error) {
	if arg != catalog.Latest {
		if f != (latestFlags{}) {
			return "", usage(cmd, errors.New("--before and --of choose the latest backup: give latest as BACKUP"))
		}
		return cluster.BackupID(arg), nil
	}
	if is := cmd.Flags().Lookup(latestIs).Value.String(); is != "" {
		return cluster.BackupID(is), nil
	}
	ref := catalog.Reference{}
	var err error
	if f.before != "" {
		if ref.Before, err = parseTime("before", f.before, time.Now()); err != nil {
			return "", usage(cmd, err)
		}
	}
	if f.of != "" {
		if ref.Cluster, err = a.global.clusterName(f.of); err != nil {
			return "", err
		}
	}
	entries, err := list(cmd.Context())
	if err != nil {
		return "", err
	}
	e, err := ref.Choose(entries)
	if err != nil {
		return "", err
	}
	a.note(fmt.Sprintf("latest is backup %s of %s, backup time %s", oneLine(e.ID), oneLine(e.Cluster),
		a.view().text(e.BackupTS.Time())))
	return e.ID, cmd.Flags().Set(latestIs, string(e.ID))
}

// note prints what a user should know beside the result.
func (a *app) note(text string) {
	if !a.machine() {
		_, _ = fmt.Fprintln(a.streams.Err, failure.Lines(text))
		return
	}
	line, _ := json.Marshal(struct { // strings cannot fail
		Type    string `json:"type"`
		Message string `json:"message"`
	}{"note", text})
	_, _ = fmt.Fprintln(a.streams.Err, string(line))
}
