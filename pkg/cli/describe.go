package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// describeDoc is the output of `tisnap describe`.
type describeDoc struct {
	header
	Backup     cluster.BackupID     `json:"backup"`
	Cluster    cluster.Name         `json:"cluster"`
	Version    string               `json:"version"`
	Operator   string               `json:"operator,omitempty"` // of TiDB Operator; "" for 1.x
	Region     string               `json:"region"`
	BackupTS   cluster.TS           `json:"backupTS"`
	CreatedAt  time.Time            `json:"createdAt"`
	SealedAt   time.Time            `json:"sealedAt"`
	Pin        *manifest.Pin        `json:"pin,omitempty"`
	Parts      partsDoc             `json:"parts,omitempty"`
	CopyOf     *manifest.CopyOf     `json:"copyOf,omitempty"`
	EC2        ec2Facts             `json:"ec2"`
	Snapshots  []manifest.Snapshot  `json:"snapshots"`
	EarlyApply *report.EarlyApply   `json:"earlyApply"`
	LogBackups []manifest.LogBackup `json:"logBackups,omitempty"`
	CoveredBy  []string             `json:"coveredBy,omitempty"` // of the log backups
	Report     *report.Report       `json:"report,omitempty"`
	Restores   []*report.Report     `json:"restores,omitempty"`
	Archives   []*report.Report     `json:"archives,omitempty"`

	details bool
	logs    string // what the log backups are for this backup; empty without any
}

func (a *app) describeCommand() *cobra.Command {
	var details bool
	var verifyKey string
	var latest latestFlags
	cmd := &cobra.Command{
		Use:   "describe BACKUP",
		Short: "Show a backup: its snapshots and phase times, and those of its restores",
		Long: `Show a backup: its snapshots and phase times, and those of its restores.
The manifest is verified against its seal. EC2 is asked for the snapshots' locks and tiers,
for 10 seconds at most; without EC2 they are unknown. Nothing is changed.`,
		Example: `  tisnap describe prod-20261121-100000 --storage s3://backups/prod
  tisnap describe prod-20261121-100000 --storage s3://backups/prod --details`,
		Args:              exactly("BACKUP"),
		ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.backupID(cmd, latest, args[0])
			if err != nil {
				return err
			}
			doc, err := a.describe(cmd.Context(), id, verifyKey)
			if err != nil {
				return err
			}
			doc.details = details
			return a.print(doc)
		},
	}
	cmd.Flags().BoolVar(&details, "details", false, "show the steps of each phase and the parts of the hold")
	a.latestFlags(cmd, &latest)
	a.localFlag(cmd)
	verifyKeyFlag(cmd, &verifyKey)
	return cmd
}

// noBackup adds where to look instead of a backup that is not sealed, or is a run.
func noBackup(ctx context.Context, store objstore.Store, id cluster.BackupID, err error) error {
	if !failure.Is(err, failure.NotFound) && !failure.Is(err, failure.Unready) {
		return err
	}
	r, readErr := runOf(ctx, store, string(id))
	switch {
	case readErr != nil:
		return err // it has all that is known
	case failure.Is(err, failure.NotFound) && string(r.ID) == string(id):
		return failure.New(failure.NotFound, "load backup", string(id), "this is a run, of backup %s", r.Backup).
			WithHint("see the run: tisnap status %s", id)
	}
	return failure.New(failure.KindOf(err), "", "", "%w", err).WithHint("see its run: tisnap status %s", id)
}

func (a *app) describe(ctx context.Context, id cluster.BackupID, verifyKey string) (*describeDoc, error) {
	key, err := readVerifyKey(verifyKey)
	if err != nil {
		return nil, err
	}
	store, done, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	cat := catalog.Catalog{Store: store, VerifyKey: key}
	m, err := cat.Load(ctx, id)
	if err != nil {
		return nil, noBackup(ctx, store, id, err)
	}
	doc := &describeDoc{
		header: newHeader("Backup"), Backup: m.ID, Cluster: m.Source.Cluster, Version: m.Source.Version,
		Operator: m.Kubernetes.Operator(), Region: m.Region,
		BackupTS: m.BackupTS, CreatedAt: m.CreatedAt, SealedAt: m.SealedAt, Snapshots: m.Snapshots,
		EarlyApply: earlyApplyOf(m), LogBackups: m.LogBackups, logs: logBackupsText(m), CoveredBy: m.CoveredBy(),
		Parts: partsOf(m), CopyOf: m.CopyOf,
	}
	pin, err := cat.PinOf(ctx, m.ID, m.Run)
	if err != nil {
		return nil, err
	}
	if pin != nil {
		doc.Pin = &pin.Pin
	}
	doc.EC2 = a.askEC2(ctx, m)
	return doc, doc.readReports(ctx, store, m.Run)
}

// readReports adds the reports of the run that made the backup, and of the archives and restores that succeeded. A
// backup is restorable without one.
func (d *describeDoc) readReports(ctx context.Context, store objstore.Store, made cluster.RunID) error {
	found, err := history.Open(store).Reports(ctx, d.Backup)
	if err != nil {
		return err
	}
	for _, r := range found {
		switch {
		case r.Outcome != phase.Done:
		case r.Run == made:
			d.Report = r
		case r.Operation == report.Copy, // of a copy that was deleted
			r.Operation == report.Drill:
		case r.Operation == report.Archive:
			d.Archives = append(d.Archives, r)
		case r.Operation != report.Backup: // a backup's may be of one that was deleted before its name was used again
			d.Restores = append(d.Restores, r)
		}
	}
	return nil
}

func (d *describeDoc) table(w io.Writer, v view) error {
	if err := d.facts(w, v); err != nil {
		return err
	}
	t := newTable("STORE", "ROLE", "SNAPSHOT", "VOLUME", "ZONE", "TYPE", "GIB")
	t.drop = []string{"VOLUME", "ZONE", "ROLE"}
	for _, s := range d.Snapshots {
		t.row(s.Store, s.Role, s.ID, s.Volume, s.Zone, s.Type, s.SizeGiB)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	if d.Report == nil {
		if _, err := fmt.Fprintln(w, "\nno phase report is stored"); err != nil {
			return err
		}
	}
	for _, r := range slices.Concat([]*report.Report{d.Report}, d.Archives, d.Restores) {
		if r == nil {
			continue
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := r.Table(w, report.TableOptions{Details: d.details}); err != nil {
			return err
		}
	}
	return nil
}

// facts prints what is of the whole backup.
func (d *describeDoc) facts(w io.Writer, v view) error {
	operator := ""
	if d.Operator != "" {
		operator = ", TiDB Operator " + oneLine(d.Operator)
	}
	_, err := fmt.Fprintf(w,
		"backup       %s\ncluster      %s, TiKV %s%s, region %s\nbackup ts    %s (%s)\nsealed       %s\nearly apply  "+
			"%s\n",
		oneLine(d.Backup), oneLine(d.Cluster), oneLine(d.Version), operator, oneLine(d.Region), d.BackupTS,
		v.in(d.BackupTS.Time()).Format("2006-01-02 15:04:05.000 MST"), v.text(d.SealedAt), d.EarlyApply.Text())
	for c, name := d.CopyOf, "copy of"; c != nil && err == nil; c, name = c.CopyOf, "  itself of" {
		_, err = fmt.Fprintf(w, "%-12s %s, in %s of account %s\n", name, oneLine(c.Location), oneLine(c.Region),
			oneLine(c.Account))
	}
	if err == nil && d.Pin != nil {
		_, err = fmt.Fprintf(w, "kept         %s\n", pinText(*d.Pin, v))
	}
	if err == nil {
		err = d.EC2.table(w, v, len(d.Snapshots))
	}
	if err == nil && d.logs != "" {
		_, err = fmt.Fprintf(w, "log backup   %s\n", d.logs)
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	if err == nil {
		err = d.Parts.table(w, v)
	}
	return err
}
