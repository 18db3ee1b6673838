package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/report"
)

// describeDoc is the output of `tisnap describe`.
type describeDoc struct {
	header
	Backup    cluster.BackupID    `json:"backup"`
	Cluster   cluster.Name        `json:"cluster"`
	Version   string              `json:"version"`
	Region    string              `json:"region"`
	BackupTS  cluster.TS          `json:"backupTS,string"`
	CreatedAt time.Time           `json:"createdAt"`
	SealedAt  time.Time           `json:"sealedAt"`
	Snapshots []manifest.Snapshot `json:"snapshots"`
	Report    *report.Report      `json:"report,omitempty"`

	details bool
}

func (a *app) describeCommand() *cobra.Command {
	var details bool
	cmd := &cobra.Command{
		Use:   "describe BACKUP",
		Short: "Show a backup: its snapshots, and how long each phase took",
		Long: `Show a backup: its snapshots, and how long each phase took. The manifest is checked
against its seal. Nothing is changed.` + "\n" + exitStatus(),
		Example: `  tisnap describe prod-20261121-100000 --storage s3://backups/prod
  tisnap describe prod-20261121-100000 --storage s3://backups/prod --details`,
		Args:              exactly("BACKUP"),
		ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := a.describe(cmd.Context(), cluster.BackupID(args[0]))
			if err != nil {
				return err
			}
			doc.details = details
			return a.print(doc)
		},
	}
	cmd.Flags().BoolVar(&details, "details", false, "show the steps of each phase and the parts of the hold")
	return cmd
}

func (a *app) describe(ctx context.Context, id cluster.BackupID) (*describeDoc, error) {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer c.close()
	store, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	cat := catalog.Catalog{Store: store}
	m, err := cat.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	doc := &describeDoc{
		header: newHeader("Backup"), Backup: m.ID, Cluster: m.Source.Cluster, Version: m.Source.Version, Region: m.Region,
		BackupTS: m.BackupTS, CreatedAt: m.CreatedAt, SealedAt: m.SealedAt, Snapshots: m.Snapshots,
	}
	body, err := cat.Report(ctx, id)
	if failure.Is(err, failure.NotFound) {
		return doc, nil // a backup without a report can be restored all the same
	}
	if err != nil {
		return nil, err
	}
	doc.Report, err = report.Decode(bytes.NewReader(body))
	return doc, err
}

func (d *describeDoc) table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "backup     %s\ncluster    %s, TiKV %s, region %s\nbackup ts  %s (%s)\nsealed     %s\n\n",
		d.Backup, d.Cluster, d.Version, d.Region, d.BackupTS, d.BackupTS.Time().Format("2006-01-02 15:04:05.000 MST"),
		d.SealedAt.Format("2006-01-02 15:04:05 MST"))
	if err != nil {
		return err
	}
	t := newTable("STORE", "ROLE", "SNAPSHOT", "VOLUME", "ZONE", "TYPE", "GIB")
	for _, s := range d.Snapshots {
		t.row(s.Store, s.Role, s.ID, s.Volume, s.Zone, s.Type, s.SizeGiB)
	}
	if err := t.write(w); err != nil {
		return err
	}
	if d.Report == nil {
		_, err := fmt.Fprintln(w, "\nno report of its phases is stored")
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return d.Report.Table(w, report.TableOptions{Details: d.details})
}
