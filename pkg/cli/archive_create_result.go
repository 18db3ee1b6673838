package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/report"
)

// createdArchiveDoc is the output of `tisnap archive create`.
type createdArchiveDoc struct {
	header
	Archive    string           `json:"archive,omitempty"` // its id
	Repository string           `json:"repository"`        // its id
	Backup     cluster.BackupID `json:"backup"`
	Run        cluster.RunID    `json:"run"`
	Cluster    cluster.Name     `json:"cluster"`
	Committed  bool             `json:"committed"`
	Workers    *workersDoc      `json:"workers,omitempty"`
	Report     *report.Report   `json:"report"`

	journalled bool
}

func archiveResult(
	ctx context.Context, opts create.Options, repo *repository.Repository, r *create.Result, prices *estimate.Prices,
	err error,
) *createdArchiveDoc {
	h := report.Header{
		Operation: report.Archive, Run: opts.Run, Backup: opts.Backup, Cluster: opts.Cluster, Outcome: outcome(err),
		Started: r.Started, Finished: r.Finished, Processes: r.Before, Error: text(err), ErrorKind: errorKind(ctx, err),
		Archived: archived(r, repo, prices),
	}
	if r.Manifest != nil {
		h.TiKVs, h.Volumes = len(r.Manifest.Source.Stores), len(r.Manifest.Snapshots)
	}
	return &createdArchiveDoc{
		header: newHeader("ArchiveResult"), Archive: r.Archive, Repository: repo.ID().String(), Backup: opts.Backup,
		Run: opts.Run, Cluster: opts.Cluster, Committed: r.Committed, Report: report.New(h, r.Timings),
		journalled: r.Journalled,
	}
}

// archived is what the run read and stored; nil before it read anything.
func archived(r *create.Result, repo *repository.Repository, prices *estimate.Prices) *report.Archived {
	if r.Archive == "" {
		return nil
	}
	a := &report.Archived{
		Repository: repo.ID().String(), Archive: r.Archive, Base: r.Base, Packs: r.Spent.Packs,
		StoredBytes: r.Spent.StoredBytes, Lists: r.Spent.Lists, Reads: r.Spent.Reads, Throttled: r.Spent.Throttled,
		RequestsUSD: requestsUSD(r.Spent, prices), Volumes: []report.ArchivedVolume{},
	}
	var sum volume.Stats
	for _, v := range r.Volumes {
		sum.Add(v.Stats)
		a.Volumes = append(a.Volumes, report.ArchivedVolume{
			Store: v.Store, Role: v.Role, Snapshot: v.Snapshot, SizeBytes: v.SizeGiB << 30,
			Compared: string(v.Compared), FreeUnknown: v.FreeUnknown, ArchivedBytes: bytesOf(v.Stats),
			Seconds: v.Seconds,
		})
	}
	a.ArchivedBytes = bytesOf(sum)
	return a
}

// bytesOf converts numbers of blocks.
func bytesOf(s volume.Stats) report.ArchivedBytes {
	return report.ArchivedBytes{
		ReadBytes: s.Read * volume.BlockSize, FreeBytes: s.Free * volume.BlockSize,
		AuditedBytes: s.Audited * volume.BlockSize, AuditedDataBytes: s.AuditedData * volume.BlockSize,
		ZeroBytes:      s.Zero * volume.BlockSize,
		UnchangedBytes: s.Unchanged * volume.BlockSize, RepeatedBytes: s.Repeated * volume.BlockSize,
		PackedBytes: s.Packed * volume.BlockSize,
	}
}

// requestsUSD is the price of the requests; nil if one of the prices is unknown.
func requestsUSD(s create.Spent, p *estimate.Prices) *float64 {
	sum := 0.0
	for _, item := range []struct {
		calls    int64
		thousand *float64
	}{{s.Lists, p.Direct.List1000}, {s.Reads, p.Direct.Get1000}, {s.Packs, p.Requests.Put1000}} {
		if item.thousand == nil {
			return nil
		}
		sum += float64(item.calls) / 1000 * *item.thousand
	}
	return &sum
}

func (d *createdArchiveDoc) names() []string { return nameIf(d.Committed, "archive", d.Archive) }

func (d *createdArchiveDoc) table(w io.Writer, _ view) error {
	if !d.journalled {
		return nil // the error is enough
	}
	if err := d.Report.Table(w, report.TableOptions{NoError: true}); err != nil {
		return err
	}
	if !d.Committed {
		_, err := fmt.Fprintf(w, "\nno archive of backup %s was made; the same command resumes\n", d.Backup)
		if err != nil {
			return err
		}
		return d.Workers.table(w, d.Committed)
	}
	_, err := fmt.Fprintf(w, "\nbackup %s is archived as %s\nprove it with: tisnap archive verify %s\n", d.Backup,
		d.Archive, d.Archive)
	return err
}

// archivePlanDoc is the output of a dry run of it.
type archivePlanDoc struct {
	header
	Backup     cluster.BackupID     `json:"backup"`
	Cluster    cluster.Name         `json:"cluster"`
	Repository string               `json:"repository"` // its id
	Base       string               `json:"base,omitempty"`
	Items      []plannedArchiveItem `json:"items"`
	ReadBytes  int64                `json:"readBytes"`
	FreeBytes  int64                `json:"freeBytes"` // that are not read: the file systems do not use them
	// Seconds is how long reading takes at the rate, at least.
	Seconds float64 `json:"seconds"`
	// Requests are those to the EBS direct APIs and, for packs, to the repository: at most, as if no block were known
	// or compressible.
	Requests    int64    `json:"requests"`
	RequestsUSD *float64 `json:"requestsUSD,omitempty"`
	// Job is that of --on-kubernetes.
	Job json.RawMessage `json:"job,omitempty"`
}

// plannedArchiveItem is what is read of one volume.
type plannedArchiveItem struct {
	Store     cluster.StoreID    `json:"store"`
	Role      cluster.Role       `json:"role"`
	Snapshot  cluster.SnapshotID `json:"snapshot"`
	SizeBytes int64              `json:"sizeBytes"`
	Compared  create.Compared    `json:"comparedWith"`
	ReadBytes int64              `json:"readBytes"`
	FreeBytes int64              `json:"freeBytes"` // that are not read: the file system does not use them
	// FreeUnknown is why all blocks are read, as a clause.
	FreeUnknown string `json:"freeUnknown,omitempty"`
}

func archivePlan(
	opts create.Options, repo *repository.Repository, p *create.Plan, prices *estimate.Prices,
) *archivePlanDoc {
	doc := &archivePlanDoc{
		header: newHeader("ArchivePlan"), Backup: opts.Backup, Cluster: opts.Cluster, Repository: repo.ID().String(),
		Base: p.Base, ReadBytes: p.Blocks * volume.BlockSize, FreeBytes: p.Free * volume.BlockSize, Seconds: p.Seconds,
		Items:    []plannedArchiveItem{},
		Requests: p.Spent.Lists + p.Spent.Reads + p.Spent.Packs, RequestsUSD: requestsUSD(p.Spent, prices),
	}
	for _, v := range p.Volumes {
		doc.Items = append(doc.Items, plannedArchiveItem{
			Store: v.Store, Role: v.Role, Snapshot: v.Snapshot, SizeBytes: v.SizeGiB << 30, Compared: v.Compared,
			ReadBytes: v.Read * volume.BlockSize, FreeBytes: v.Free * volume.BlockSize, FreeUnknown: v.FreeUnknown,
		})
	}
	return doc
}

func (d *archivePlanDoc) names() []string { return nil }

// free is how much is left out.
func (i *plannedArchiveItem) free() string {
	if i.FreeUnknown != "" {
		return "unknown"
	}
	return iBytes(i.FreeBytes)
}

func (d *archivePlanDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "ROLE", "SNAPSHOT", "SIZE", "COMPARED WITH", "TO READ", "FREE")
	t.drop = []string{"SIZE", "SNAPSHOT"}
	var volumes []report.ArchivedVolume
	for _, i := range d.Items {
		t.row(i.Store, i.Role, i.Snapshot, iBytes(i.SizeBytes), i.Compared, iBytes(i.ReadBytes), i.free())
		volumes = append(volumes, report.ArchivedVolume{Store: i.Store, Role: i.Role, FreeUnknown: i.FreeUnknown})
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	for _, why := range report.FreeUnknown(volumes) {
		if _, err := fmt.Fprintf(w, "\nfree blocks are unknown of %s\n", oneLine(why)); err != nil {
			return err
		}
	}
	base := "without a base"
	if d.Base != "" {
		base = "after " + oneLine(d.Base)
	}
	if d.Job != nil {
		text, err := yaml.JSONToYAML(d.Job)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "\nwould make this Job, with the id of the archive:\n\n%s", text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w,
		"\nwould archive backup %s of %s, %s: %s to read, in %s at least; at most %s requests, %s USD\n"+
			"nothing was changed\n",
		d.Backup, d.Cluster, base, iBytes(d.ReadBytes), report.Roughly(d.Seconds), humanize.Comma(d.Requests),
		usd(d.RequestsUSD))
	return err
}
