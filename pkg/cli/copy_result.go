package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/report"
)

// copyDoc is the output of `tisnap copy`.
type copyDoc struct {
	header
	Backup  cluster.BackupID `json:"backup"`
	Run     cluster.RunID    `json:"run"`
	Cluster cluster.Name     `json:"cluster"`
	Storage string           `json:"storage"` // of the copy
	Region  string           `json:"region"`
	Sealed  bool             `json:"sealed"`
	Items   []copiedItem     `json:"items"`
	// Shared are snapshots of the source that the target's account may still read.
	Shared []cluster.SnapshotID `json:"shared,omitempty"`
	Report *report.Report       `json:"report"`

	journalled bool
}

// copiedItem is one completed copy.
type copiedItem struct {
	Store     cluster.StoreID    `json:"store"`
	Role      cluster.Role       `json:"role"`
	Snapshot  cluster.SnapshotID `json:"snapshot"`
	From      cluster.SnapshotID `json:"copiedFrom"`
	DataBytes int64              `json:"dataBytes"`
}

func copyResult(
	ctx context.Context, opts copyrun.Options, deps *copyrun.Deps, r *copyrun.Result, err error,
) *copyDoc {
	h := report.Header{
		Operation: report.Copy, Run: opts.Run, Backup: opts.Backup, Cluster: opts.Cluster, Outcome: outcome(err),
		Started: r.Started, Finished: r.Finished, Processes: r.Before, Error: text(err), ErrorKind: errorKind(ctx, err),
	}
	if r.Manifest != nil {
		h.TiKVs, h.Volumes = len(r.Manifest.Source.Stores), len(r.Manifest.Snapshots)
	}
	doc := &copyDoc{
		header: newHeader("CopyResult"), Backup: opts.Backup, Run: opts.Run, Cluster: opts.Cluster,
		Storage: deps.To.URL(), Region: deps.Target.Region(), Sealed: r.Sealed, Items: []copiedItem{}, Shared: r.Shared,
		journalled: r.Journalled,
	}
	for _, c := range r.Copies {
		doc.Items = append(doc.Items, copiedItem{
			Store: c.Store, Role: c.Role, Snapshot: c.Copy, From: c.Snapshot, DataBytes: c.Bytes,
		})
		h.DataBytes += c.Bytes
		h.DataPerVolumeBytes = max(h.DataPerVolumeBytes, c.Bytes)
	}
	if p := r.Plan; len(p.Copies) > 0 {
		h.Copied = &report.CopiedSet{
			FromRegion: p.FromRegion, ToRegion: p.ToRegion, Account: p.Account, Snapshots: len(p.Copies),
			Completed: len(r.Copies), FullBytes: p.FullBytes, ChangedBytes: p.ChangedBytes,
		}
	}
	doc.Report = report.New(h, r.Timings)
	return doc
}

func (d *copyDoc) names() []string { return nameIf(d.Sealed, "backup", string(d.Backup)) }

func (d *copyDoc) table(w io.Writer, _ view) error {
	if !d.journalled {
		return nil // the error is enough
	}
	if err := d.Report.Table(w, report.TableOptions{NoError: true}); err != nil {
		return err
	}
	if !d.Sealed {
		_, err := fmt.Fprintf(w, "\nno copy of backup %s was sealed; the same command resumes\n", d.Backup)
		return err
	}
	_, err := fmt.Fprintf(w, "\nbackup %s is copied to %s, with %d snapshots in %s\n", d.Backup, d.Storage,
		len(d.Items), d.Region)
	return err
}

// copyPlanDoc is the output of a dry run of it.
type copyPlanDoc struct {
	header
	Backup     cluster.BackupID `json:"backup"`
	Cluster    cluster.Name     `json:"cluster"`
	Storage    string           `json:"storage"` // of the copy
	FromRegion string           `json:"fromRegion"`
	ToRegion   string           `json:"toRegion"`
	Account    string           `json:"account"`
	// Share means that the snapshots are shared with that account while they are copied.
	Share bool              `json:"share"`
	Items []plannedCopyItem `json:"items"`
	// FullBytes is what is moved in full; ChangedBytes is the data of snapshots of which only what has changed is.
	FullBytes    int64 `json:"fullBytes"`
	ChangedBytes int64 `json:"changedBytes"`
	// Others is how many copies tisnap's other runs have under way into the region, of the 20 that EC2 makes at a time.
	Others int `json:"others,omitempty"`
	// Seconds is the shortest time that the throughput of copies with a duration allows; EC2 promises none without.
	// AllChangedSeconds is that if every block has changed since the last copies.
	Seconds           float64 `json:"seconds"`
	AllChangedSeconds float64 `json:"allChangedSeconds"`
	// EachSeconds is the duration that is asked for each copy; absent without --within.
	EachSeconds float64 `json:"eachSeconds,omitempty"`
	// TransferUSD is what AWS bills for the transfer between regions, at most; null if unknown. MonthUSD is what it
	// bills for keeping the copies, at most. WithinUSD is what --within costs besides, at most; absent without it.
	TransferUSD *float64 `json:"transferUSD,omitempty"`
	WithinUSD   *float64 `json:"withinUSD,omitempty"`
	MonthUSD    *float64 `json:"monthUSD,omitempty"`
}

// plannedCopyItem is one copy to be made.
type plannedCopyItem struct {
	Snapshot  cluster.SnapshotID `json:"snapshot"`
	Volume    cluster.VolumeID   `json:"volume"`
	DataBytes int64              `json:"dataBytes"`
	// Full is why all data is moved; absent if only what has changed is.
	Full copyplan.Reason `json:"full,omitempty"`
}

func copyPlan(
	opts copyrun.Options, deps *copyrun.Deps, p *copyrun.Plan, prices *estimate.Prices,
) *copyPlanDoc {
	doc := &copyPlanDoc{
		header: newHeader("CopyPlan"), Backup: opts.Backup, Cluster: opts.Cluster, Storage: deps.To.URL(),
		FromRegion: p.FromRegion, ToRegion: p.ToRegion, Account: p.Account, Share: p.Share, Items: []plannedCopyItem{},
		FullBytes: p.FullBytes, ChangedBytes: p.ChangedBytes, Others: p.Others,
		Seconds: p.Least.Seconds(), AllChangedSeconds: p.AllChanged.Seconds(), EachSeconds: p.Each.Seconds(),
	}
	all := float64(p.FullBytes+p.ChangedBytes) / (1 << 30)
	usd := func(price *float64) *float64 {
		if price == nil {
			return nil
		}
		sum := all * *price
		return &sum
	}
	doc.MonthUSD = usd(prices.MonthOfGB())
	if doc.TransferUSD = usd(prices.Snapshot.CopyGB); p.FromRegion == p.ToRegion {
		doc.TransferUSD = new(float64)
	}
	if p.Each > 0 {
		doc.WithinUSD = usd(prices.Snapshot.CopyWithinGB)
	}
	for _, c := range p.Copies {
		doc.Items = append(doc.Items, plannedCopyItem{
			Snapshot: c.ID, Volume: c.Volume, DataBytes: c.Bytes, Full: c.Full,
		})
	}
	return doc
}

func (d *copyPlanDoc) names() []string { return nil }

func (d *copyPlanDoc) table(w io.Writer, v view) error {
	t := newTable("SNAPSHOT", "VOLUME", "DATA", "COPY")
	t.drop, t.cut = []string{"VOLUME"}, true
	for _, i := range d.Items {
		how := "what has changed"
		if i.Full != copyplan.Incremental {
			how = "in full: " + string(i.Full)
		}
		t.row(i.Snapshot, i.Volume, iBytes(i.DataBytes), how)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	share := ""
	if d.Share {
		share = "; the snapshots are shared with it meanwhile"
	}
	if d.Others > 0 {
		share += fmt.Sprintf("\nother runs have %d of EC2's %d slots for copies there", d.Others,
			copyplan.Slots)
	}
	_, err := fmt.Fprintf(w,
		"\nwould copy backup %s of %s from %s to %s of account %s%s\n"+
			"%s in full, and what has changed of %s\n%s\n%s\nnothing was changed\n",
		d.Backup, d.Cluster, d.FromRegion, d.ToRegion, d.Account, share, iBytes(d.FullBytes), iBytes(d.ChangedBytes),
		d.least(), d.bill())
	return err
}

// least is how long the copies take at least: what incremental ones take is known only if all has changed.
func (d *copyPlanDoc) least() string {
	switch {
	case d.AllChangedSeconds <= d.Seconds:
		return "in " + report.Roughly(d.Seconds) + " at least"
	case d.Seconds == 0:
		return "in " + report.Roughly(d.AllChangedSeconds) + " at least if every block has changed"
	default:
		return "in " + report.Roughly(d.Seconds) + " at least, " + report.Roughly(d.AllChangedSeconds) +
			" if every block has changed"
	}
}

func (d *copyPlanDoc) bill() string {
	within := ""
	if d.EachSeconds > 0 {
		within = fmt.Sprintf(" %s USD for --within,", usd(d.WithinUSD))
	}
	return fmt.Sprintf("at most %s USD for the transfer,%s and %s USD a month", usd(d.TransferUSD), within,
		usd(d.MonthUSD))
}
