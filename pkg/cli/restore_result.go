package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/underway"
)

// restoreDoc is the output of `tisnap restore`.
type restoreDoc struct {
	header
	Backup   cluster.BackupID `json:"backup"`
	Run      cluster.RunID    `json:"run"`
	Cluster  cluster.Name     `json:"cluster"`
	Restored bool             `json:"restored"`
	BackupTS cluster.TS       `json:"backupTS"`
	Volumes  []restore.Volume `json:"volumes"`
	Resolve  resolve.Stats    `json:"resolve"`
	Tasks    []pd.Task        `json:"tasks,omitempty"` // log backups and changefeeds that read the cluster's changes
	Account  string           `json:"account,omitempty"`
	// FromArchive is what the volumes' snapshots were made of; nil for those of the backup.
	FromArchive *archivedDoc `json:"fromArchive,omitempty"`
	Without     []uint64     `json:"withoutStores,omitempty"` // of --tolerate-store
	// what the run could not do or undo; needs attention
	Left   []string       `json:"left,omitempty"`
	Report *report.Report `json:"report"`

	compare, journalled bool
	logChain            string // how to begin a new log chain, if the source had one
}

func restoreResult(ctx context.Context, opts restore.Options, r *restore.Result, err error) *restoreDoc {
	h := report.Header{
		Operation: report.Restore, Run: opts.Run, Backup: opts.Backup, Cluster: opts.Target,
		Outcome: outcome(err), Started: r.Started, Finished: r.Finished, Processes: r.Before, Volumes: len(r.Volumes),
		DataBytes: r.DataBytes, DataPerVolumeBytes: r.LargestBytes, Error: text(err), ErrorKind: errorKind(ctx, err),
		Stores:   r.Stores,
		Expected: underway.Expected(r.Expected),
	}
	if h.VolumeSettings = report.SettingsOf(specsOf(r.Volumes)); h.VolumeSettings != nil {
		h.VolumeSettings.FastRestore, h.VolumeSettings.InitializationMiB = opts.FastRestore, opts.InitializationMiB
	}
	doc := &restoreDoc{
		header: newHeader("RestoreResult"), Backup: opts.Backup, Run: opts.Run, Cluster: opts.Target,
		Restored: r.Restored, Volumes: r.Volumes, Resolve: r.Resolve, Tasks: r.Tasks,
		Account: r.Account, Left: r.Left, journalled: r.Journalled,
	}
	for _, id := range opts.TolerateStores {
		doc.Without = append(doc.Without, uint64(id))
	}
	if r.Manifest != nil {
		doc.BackupTS, doc.logChain = r.Manifest.BackupTS, newLogChain(r.Manifest)
		h.TiKVs = len(r.Manifest.Source.Stores) - len(opts.TolerateStores)
	}
	if n := r.Resolve.Uneven; n > 0 {
		h.Warnings = append(h.Warnings, unevenWarning(n, opts.Backup))
	}
	if len(doc.Without) > 0 {
		h.Warnings = append(h.Warnings, withoutWarning(doc.Without, r.Manifest))
	}
	h.Warnings = append(h.Warnings, r.Warnings...)
	h.Warnings = append(h.Warnings, r.Left...)
	h.Regions, h.EarlyApply = regionsOf(r.Regions), restoredEarlyApply(r)
	doc.Report = report.New(h, r.Timings)
	return doc
}

// regionsOf returns the report's part about the data phase; nil if the run made no plan or did not start the flashback.
func regionsOf(s journal.ResolvedRegions) *report.Regions {
	if s.Unchanged+s.Flashed == 0 {
		return nil
	}
	return &report.Regions{
		Total: s.Total, Unchanged: s.Unchanged, Flashed: s.Flashed, Checked: s.Checked, SavedSeconds: s.SavedSeconds,
	}
}

func (d *restoreDoc) table(w io.Writer, v view) error {
	if !d.journalled {
		return nil // the error is enough
	}
	if err := d.Report.Table(w, report.TableOptions{Compare: d.compare, NoError: true}); err != nil {
		return err
	}
	if !d.Restored {
		_, err := fmt.Fprintf(w, "\nbackup %s was not restored\n", d.Backup)
		return err
	}
	_, err := fmt.Fprintf(w, "\ncluster %s serves the data of backup %s at ts %s (%d regions)\n%s", d.Cluster, d.Backup,
		d.BackupTS, d.Resolve.Regions, d.logChain)
	return err
}

// restorePlanDoc is the output of a dry run of a restore.
type restorePlanDoc struct {
	header
	Backup   cluster.BackupID `json:"backup"`
	Cluster  cluster.Name     `json:"cluster"`
	BackupTS cluster.TS       `json:"backupTS"`
	Volumes  []restore.Volume `json:"volumes"`
	Region   string           `json:"region"`
	Account  string           `json:"account"`
	// InitializationMiB is each volume's rate; Waves is how many batches of volumes are needed.
	InitializationMiB int64 `json:"initializationMiB,omitempty"`
	Waves             int   `json:"waves,omitempty"`
	// FromArchive is what the snapshots would be made of; nil for those of the backup.
	FromArchive *archivedPlanDoc `json:"fromArchive,omitempty"`
	// Parts are those of a backup that was adopted: all of them become one cluster here.
	Parts partsDoc `json:"parts,omitempty"`
	// Estimate is the restore's expected duration and cost; nil if the data size is unknown.
	Estimate *estimateDoc `json:"estimate,omitempty"`
}

// estimate adds the expected duration, by the model scaled to the storage's runs, and AWS's charges.
func (d *restorePlanDoc) estimate(
	ctx context.Context, store objstore.Store, opts restore.Options, p *restore.Plan,
) error {
	if p.DataBytes <= 0 || len(p.Volumes) == 0 {
		return nil
	}
	prices, err := estimate.DefaultPrices()
	if err != nil {
		return err
	}
	fit, err := fitTo(ctx, history.Open(store))
	if err != nil {
		fit = nil // optional for the plan
	}
	d.Estimate = &estimateDoc{header: newHeader("Estimate")}
	return d.Estimate.add(plannedRestore(opts, p), fit, prices)
}

func restorePlan(opts restore.Options, p *restore.Plan) *restorePlanDoc {
	d := &restorePlanDoc{
		header: newHeader("RestorePlan"), Backup: opts.Backup, Cluster: opts.Target, BackupTS: p.Manifest.BackupTS,
		Volumes: p.Volumes,
		Region:  p.Region, Account: p.Account, Parts: partsOf(p.Manifest),
	}
	if p.InitializationMiB > 0 {
		d.InitializationMiB, d.Waves = p.InitializationMiB, p.Waves
	}
	return d
}

func (d *restorePlanDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "POD", "ROLE", "SNAPSHOT", "ZONE", "TYPE", "GIB", "IOPS", "MIB/S")
	t.drop = []string{"POD", "ZONE", "ROLE"}
	for _, of := range d.Volumes {
		t.row(of.Store, fmt.Sprintf("%s-tikv-%d", d.Cluster.Name, of.Ordinal), of.Role, of.Snapshot, of.Zone,
			kindOf(&of), of.Spec.SizeGiB, of.Spec.IOPS, of.Spec.ThroughputMiB)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	if d.Waves > 0 {
		if _, err := fmt.Fprintf(w, "\nEC2 would initialize each volume at %d MiB/s, in %d wave(s)\n",
			d.InitializationMiB,
			d.Waves); err != nil {
			return err
		}
	}
	if err := d.FromArchive.print(w); err != nil {
		return err
	}
	if err := d.Parts.restored(w, v); err != nil {
		return err
	}
	if d.FromArchive != nil && d.FromArchive.Via == wayVolumes {
		_, err := fmt.Fprintf(w, "\nwould restore backup %s to %s: %d claims; nothing was changed\n", d.Backup,
			d.Cluster, len(d.Volumes))
		return err
	}
	_, err := fmt.Fprintf(w,
		"\nwould restore backup %s to %s in account %s, %s: %d CreateVolume calls; nothing was changed\n",
		d.Backup, d.Cluster, d.Account, d.Region, len(d.Volumes))
	if err != nil || d.Estimate == nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return d.Estimate.table(w, v)
}

// kindOf is a volume's type at EC2, or its StorageClass.
func kindOf(v *restore.Volume) string {
	if v.Filled != nil {
		return v.Filled.Class
	}
	return v.Spec.Type
}
