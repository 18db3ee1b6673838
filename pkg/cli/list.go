package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
)

// listDoc is the output of `tisnap list`.
type listDoc struct {
	header
	Items []catalog.Entry `json:"items"`

	now time.Time
}

func (a *app) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the backups in a storage",
		Long: `List the backups in a storage, the oldest first, with their state: sealed ones can be
restored, unsealed ones belong to a run that is alive or died, damaged ones cannot be read.
Nothing is changed.`,
		Example: "  tisnap list --storage s3://backups/prod\n  tisnap list --storage s3://backups/prod -o json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, err := a.list(cmd.Context())
			if err != nil {
				return err
			}
			if items == nil {
				items = []catalog.Entry{}
			}
			return a.print(&listDoc{header: newHeader("BackupList"), Items: items, now: time.Now()})
		},
	}
}

func (a *app) list(ctx context.Context) ([]catalog.Entry, error) {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer c.close()
	store, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	return catalog.Catalog{Store: store}.List(ctx)
}

func (d *listDoc) table(w io.Writer) error {
	if len(d.Items) == 0 {
		_, err := fmt.Fprintln(w, "no backups")
		return err
	}
	t := newTable("NAME", "CLUSTER", "STATE", "STORES", "SNAPSHOTS", "SIZE", "BACKUP-TS", "AGE")
	for _, e := range d.Items {
		of, size, ts, age := "", "", "", ""
		if e.Cluster != (cluster.Name{}) {
			of = e.Cluster.String()
		}
		if e.SizeGiB > 0 {
			size = humanize.IBytes(uint64(e.SizeGiB) << 30)
		}
		if e.BackupTS != 0 {
			ts = e.BackupTS.String()
		}
		if !e.CreatedAt.IsZero() {
			age = d.now.Sub(e.CreatedAt).Truncate(time.Second).String()
		}
		t.row(e.ID, of, e.State, e.Stores, e.Snapshots, size, ts, age)
	}
	if err := t.write(w); err != nil {
		return err
	}
	for _, e := range d.Items {
		if e.Problem == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s is %s: %s\n", e.ID, e.State, e.Problem); err != nil {
			return err
		}
	}
	return nil
}

// completeBackups offers the names of sealed backups in the shell.
func (a *app) completeBackups(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
	defer cancel()
	items, err := a.list(ctx)
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
