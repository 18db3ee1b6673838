package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/report"
)

// drillDoc is the output of `tisnap drill`. Its report has the three results.
type drillDoc struct {
	header
	Backup  cluster.BackupID `json:"backup"`
	Run     cluster.RunID    `json:"run"`
	Cluster cluster.Name     `json:"cluster"` // that the backup is of
	Passed  bool             `json:"passed"`
	Report  *report.Report   `json:"report"`

	journalled bool
}

func (d *drillDoc) times() *report.Report { return d.Report }
func (d *drillDoc) garbage() *gc.Report   { return nil }

func drillResult(ctx context.Context, d *drillWork, r *drill.Result, err error) *drillDoc {
	h := report.Header{
		Operation: report.Drill, Run: d.opts.Run, Backup: d.opts.Backup, Cluster: d.opts.Cluster,
		Outcome: outcome(err), Started: r.Started, Finished: r.Finished, Processes: r.Before,
		TiKVs: r.Planned.Stores, Volumes: r.Planned.Volumes, Error: text(err), ErrorKind: errorKind(ctx, err),
		Warnings: r.Warnings,
		Drilled: &report.Drilled{
			Restore: r.Restore, Checks: r.Checks, TearDown: r.TearDown, Left: r.Left, Found: r.Found,
		},
	}
	if d.result != nil {
		h.DataBytes, h.DataPerVolumeBytes, h.Stores = d.result.DataBytes, d.result.LargestBytes, d.result.Stores
	}
	return &drillDoc{
		header: newHeader("DrillResult"), Backup: d.opts.Backup, Run: d.opts.Run, Cluster: d.opts.Cluster,
		Passed: err == nil, Report: report.New(h, r.Timings), journalled: r.Journalled,
	}
}

func (d *drillDoc) names() []string { return nameIf(d.journalled, "run", string(d.Run)) }

func (d *drillDoc) table(w io.Writer, _ view) error {
	if !d.journalled {
		return nil // the error is enough
	}
	if err := d.Report.Table(w, report.TableOptions{NoError: true}); err != nil {
		return err
	}
	if !d.Passed {
		_, err := fmt.Fprintf(w, "\nthe drill of backup %s did not pass\n", d.Backup)
		return err
	}
	_, err := fmt.Fprintf(w, "\nbackup %s was restored, checked and removed again\n", d.Backup)
	return err
}

// drillPlanDoc is the output of a dry run of it.
type drillPlanDoc struct {
	header
	Backup    cluster.BackupID `json:"backup"`
	Cluster   cluster.Name     `json:"cluster"`
	Namespace string           `json:"namespace"` // of the cage
	// Statements, Tables and BudgetSeconds are what would be checked; -1 tables are all.
	Statements    []string        `json:"statements"`
	Tables        int             `json:"tables"`
	BudgetSeconds float64         `json:"budgetSeconds"`
	Restore       *restorePlanDoc `json:"restore"`
}

func (d *drillWork) planned(ctx context.Context) (document, error) {
	target := cluster.Name{Namespace: cage.Name(d.opts.Run), Name: d.opts.Cluster.Name}
	plan, opts, err := d.makePlan(ctx, target)
	if err != nil {
		return nil, err
	}
	doc := &drillPlanDoc{
		header: newHeader("DrillPlan"), Backup: d.opts.Backup, Cluster: d.opts.Cluster, Namespace: target.Namespace,
		Statements: []string{}, Tables: d.opts.Checks.Tables, BudgetSeconds: d.opts.Checks.Budget.Seconds(),
		Restore: restorePlan(opts, plan),
	}
	for _, s := range d.opts.Checks.Statements {
		doc.Statements = append(doc.Statements, s.Name)
	}
	if d.opts.Checks.AllTables {
		doc.Tables = -1
	}
	return doc, doc.Restore.estimate(ctx, d.Store, opts, plan)
}

func (d *drillPlanDoc) names() []string { return nil }

func (d *drillPlanDoc) table(w io.Writer, v view) error {
	if err := d.Restore.table(w, v); err != nil {
		return err
	}
	tables := fmt.Sprint(d.Tables)
	if d.Tables < 0 {
		tables = "all"
	}
	_, err := fmt.Fprintf(w, "\nwould restore backup %s of %s into namespace %s, check %d statements and %s tables "+
		"within %s, and remove everything again\n", d.Backup, d.Cluster, d.Namespace, len(d.Statements), tables,
		report.Duration(d.BudgetSeconds))
	return err
}
