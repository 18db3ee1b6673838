package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/underway"
)

// backupDoc is the output of `tisnap backup`.
type backupDoc struct {
	header
	Backup   cluster.BackupID `json:"backup"`
	Run      cluster.RunID    `json:"run"`
	Cluster  cluster.Name     `json:"cluster"`
	Sealed   bool             `json:"sealed"`
	BackupTS cluster.TS       `json:"backupTS"`
	Report   *report.Report   `json:"report"`

	kind       failure.Kind // of the run's error
	journalled bool
}

func backupResult(ctx context.Context, opts backup.Options, r *backup.Result, err error) *backupDoc {
	h := report.Header{
		Operation: report.Backup, Run: opts.Run, Backup: opts.Backup, Cluster: opts.Cluster,
		Outcome: outcome(err), Started: r.Started, Finished: r.Finished, Processes: r.Before,
		DataBytes: r.DataBytes, DataPerVolumeBytes: r.LargestBytes, Error: text(err), ErrorKind: errorKind(ctx, err),
		Warnings: r.Warnings,
		Expected: underway.Expected(r.Expected),
	}
	if r.Source != nil {
		h.TiKVs, h.Volumes = len(r.Source.Topology.Stores), len(r.Source.Topology.VolumeIDs())
		h.VolumeSettings = report.SettingsOf(sourceSpecs(&r.Source.Topology))
	}
	if !r.Hold.Start.IsZero() {
		h.Hold = &report.Hold{
			Start: r.Hold.Start, Seconds: r.Hold.Length.Seconds(), CutStart: r.Hold.CutStart,
			CutSeconds: r.Hold.Cut.Seconds(), SkewSeconds: r.Hold.Skew.Seconds(), Attempts: r.Attempts,
			Failed: r.FailedAttempts, Stores: r.Hold.Stores, Parts: r.Hold.Parts,
		}
	}
	h.EarlyApply = earlyApplyOf(r.Manifest)
	doc := &backupDoc{
		header: newHeader("BackupResult"), Backup: opts.Backup, Run: opts.Run, Cluster: opts.Cluster, Sealed: r.Sealed,
		Report: report.New(h, r.Timings), kind: failure.KindOf(err), journalled: r.Journalled,
	}
	if r.Manifest != nil {
		doc.BackupTS = r.Manifest.BackupTS
	}
	return doc
}

func outcome(err error) phase.Outcome {
	if err != nil {
		return phase.Failed
	}
	return phase.Done
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return failure.Redact(err.Error())
}

// errorKind is the name of the error's kind, as in the exit line; "" for none.
func errorKind(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	return kindName(exitCode(ctx, err), failure.KindOf(err))
}

func (d *backupDoc) table(w io.Writer, v view) error {
	if !d.journalled && d.kind != failure.Held {
		return nil // the error is enough
	}
	if err := d.Report.Table(w, report.TableOptions{NoError: true}); err != nil {
		return err
	}
	if d.Report.Forward != nil {
		if _, err := fmt.Fprintln(w, "\n"+d.Report.Forward.Text()); err != nil {
			return err
		}
	}
	switch {
	case d.kind == failure.Held && d.Sealed:
		_, err := fmt.Fprintf(w, "\ncluster %s is STILL HELD; backup %s is sealed and good\n", d.Cluster, d.Backup)
		return err
	case d.kind == failure.Held:
		_, err := fmt.Fprintf(w, "\ncluster %s is STILL HELD; no backup was made\n", d.Cluster)
		return err
	case !d.Sealed && d.kind == failure.Partial:
		_, err := fmt.Fprintf(w, "\ncluster %s is released; check whether backup %s is sealed: tisnap describe %s\n",
			d.Cluster, d.Backup, d.Backup)
		return err
	case !d.Sealed:
		_, err := fmt.Fprintf(w, "\nno backup was made; this run does not hold cluster %s\n", d.Cluster)
		return err
	}
	_, err := fmt.Fprintf(w,
		"\ncluster %s is released; backup %s is sealed at ts %s (%s)\nrestore it with: tisnap restore %s --to "+
			"CLUSTER\n",
		d.Cluster, d.Backup, d.BackupTS, d.BackupTS.Time().Format("2006-01-02 15:04:05.000 MST"), d.Backup)
	return err
}

// planDoc is the output of a dry run of a backup.
type planDoc struct {
	header
	Backup  cluster.BackupID `json:"backup"`
	Cluster cluster.Name     `json:"cluster"`
	Source  cluster.Topology `json:"source"`
}

func backupPlan(opts backup.Options, s *preflight.Source) *planDoc {
	return &planDoc{header: newHeader("BackupPlan"), Backup: opts.Backup, Cluster: opts.Cluster, Source: s.Topology}
}

func (d *planDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "POD", "INSTANCE", "ROLE", "VOLUME", "TYPE", "GIB")
	t.drop = []string{"INSTANCE", "ROLE", "POD"}
	for _, s := range d.Source.Stores {
		for _, v := range s.Volumes {
			t.row(s.ID, s.Pod, s.Instance, v.Role, v.ID, v.Type, v.SizeGiB)
		}
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w,
		"\nwould take backup %s of %s: %d CreateSnapshots calls, %d snapshots; nothing was changed\n",
		d.Backup, d.Cluster, len(d.Source.Stores), len(d.Source.VolumeIDs()))
	return err
}
