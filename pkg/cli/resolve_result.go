package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/restore"
)

// resolveDoc is the output of `tisnap resolve`.
type resolveDoc struct {
	header
	Backup   cluster.BackupID `json:"backup"`
	Run      cluster.RunID    `json:"run"`
	Cluster  cluster.Name     `json:"cluster"`
	Resolved bool             `json:"resolved"`
	BackupTS cluster.TS       `json:"backupTS"`
	Without  []uint64         `json:"withoutStores,omitempty"` // of --tolerate-store
	Resolve  resolve.Stats    `json:"resolve"`
	Tasks    []pd.Task        `json:"tasks,omitempty"` // log backups and changefeeds that read the cluster's changes
	Report   *report.Report   `json:"report"`

	kind       failure.Kind
	journalled bool
	logChain   string // how to begin a new log chain, if the source had one
}

func resolveResult(ctx context.Context, opts restore.Options, r *restore.Result, err error) *resolveDoc {
	h := report.Header{
		Operation: report.Resolve, Run: opts.Run, Backup: opts.Backup, Cluster: opts.Target,
		Outcome: outcome(err), Started: r.Started, Finished: r.Finished, Processes: r.Before, Error: text(err),
		ErrorKind: errorKind(ctx, err), Stores: r.Stores, Warnings: append(r.Warnings, r.Left...),
	}
	doc := &resolveDoc{
		header: newHeader("ResolveResult"), Backup: opts.Backup, Run: opts.Run, Cluster: opts.Target,
		Resolved: r.Restored, Resolve: r.Resolve, Tasks: r.Tasks, kind: failure.KindOf(err),
		journalled: r.Journalled,
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
	h.Regions, h.EarlyApply = regionsOf(r.Regions), restoredEarlyApply(r)
	doc.Report = report.New(h, r.Timings)
	return doc
}

// withoutWarning names what PD still has to do after a cluster came up without some stores.
func withoutWarning(stores []uint64, m *manifest.Manifest) string {
	text := fmt.Sprintf("the replicas of stores %v are lost: PD has to rebuild them from the others", stores)
	if m != nil && preflight.BlocksStores(m.Source.Version) {
		text += fmt.Sprintf("; if one of them returns, restart the TiKV pods of the other stores: TiKV %s sends it "+
			"nothing until then (tikv/tikv#19980)", m.Source.Version)
	}
	return text
}

// unevenWarning is the symptom of a hold that broke during the backup.
func unevenWarning(regions int, backup cluster.BackupID) string {
	return fmt.Sprintf(
		"peers of %d regions disagreed about their range: regions changed during the cut of backup %s; check the "+
			"data, and restore another backup if in doubt",
		regions, backup)
}

func (d *resolveDoc) table(w io.Writer, v view) error {
	if !d.journalled {
		return nil // the error is enough
	}
	if err := d.Report.Table(w, report.TableOptions{NoError: true}); err != nil {
		return err
	}
	if !d.Resolved && d.kind == failure.Conflict {
		_, err := fmt.Fprintf(w, "\ncluster %s was not resolved: another run has it, or it already serves\n",
			d.Cluster)
		return err
	}
	if !d.Resolved {
		_, err := fmt.Fprintf(w, "\ncluster %s was not resolved; it can be retried: tisnap resolve %s --backup %s\n",
			d.Cluster, d.Cluster, d.Backup)
		return err
	}
	_, err := fmt.Fprintf(w, "\ncluster %s serves the data of backup %s at ts %s\n%s", d.Cluster, d.Backup, d.BackupTS,
		d.logChain)
	return err
}

// resolvePlanDoc is the output of a dry run of a resolve.
type resolvePlanDoc struct {
	header
	Backup   cluster.BackupID `json:"backup"`
	Cluster  cluster.Name     `json:"cluster"`
	BackupTS cluster.TS       `json:"backupTS"`
	// Resolved reports that the data is already at the backup ts; there is no plan then.
	Resolved bool          `json:"resolved"`
	Plan     *plan.Summary `json:"plan,omitempty"`
	Tasks    []string      `json:"tasks,omitempty"`
}

func resolvePlan(opts restore.Options, p *restore.ResolvePlan) *resolvePlanDoc {
	doc := &resolvePlanDoc{
		header: newHeader("ResolvePlan"), Backup: opts.Backup, Cluster: opts.Target, BackupTS: p.Manifest.BackupTS,
		Resolved: p.Resolved, Tasks: p.Tasks,
	}
	if !p.Resolved {
		doc.Plan = &p.Plan
	}
	return doc
}

func (d *resolvePlanDoc) table(w io.Writer, v view) error {
	if d.Resolved {
		_, err := fmt.Fprintf(w,
			"the data of %s is already at the backup ts; would take its stores out of recovery mode and start TiDB; "+
				"nothing was changed\n", d.Cluster)
		return err
	}
	p := d.Plan
	t := newTable("STORE", "LEADERS")
	for _, s := range p.Stores {
		t.row(s.Store, s.Leaders)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	facts := newTable("WHAT", "COUNT", "FIRST")
	facts.row("regions", p.Regions, fmt.Sprintf("%d peers, at least %d per region", p.Peers, p.Fewest))
	facts.row("lagging peers", p.Lagging, fmt.Sprintf("at most %d log entries behind their leader", p.Behind))
	facts.row("overlaps", p.Overlaps.Count, first(p.Overlaps.First))
	facts.row("tombstones", p.Tombstones.Count, first(p.Tombstones.First))
	facts.row("uneven regions", p.Uneven.Count, first(words(p.Uneven.First)))
	facts.row("ambiguous regions", p.Ambiguous.Count, first(words(p.Ambiguous.First)))
	facts.row("degraded regions", p.Degraded.Count, first(words(p.Degraded.First)))
	facts.row("alloc id", p.AllocID, "PD's id allocator is raised above it")
	facts.row("log backups, changefeeds", len(d.Tasks), first(d.Tasks))
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := facts.write(w, v); err != nil {
		return err
	}
	for _, lost := range p.Lost {
		if _, err := fmt.Fprintf(w, "would be lost: %s\n", lost); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w,
		"\nwould resolve %s to backup %s at ts %s, and discard every later write; nothing was changed\n", d.Cluster,
		d.Backup, d.BackupTS)
	return err
}

// first shows the first few of many.
func first(items []string) string {
	const few = 3
	if len(items) > few {
		return strings.Join(items[:few], ", ") + ", …"
	}
	return strings.Join(items, ", ")
}

func words(ids []cluster.RegionID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}
