package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// drills lists the drills in a storage, newest first.
func drills(ctx context.Context, store objstore.Store) ([]runs.Run, error) {
	all, err := runs.List(ctx, store)
	return slices.DeleteFunc(all, func(r runs.Run) bool { return r.Operation != journal.Drill }), err
}

// drillListDoc is the output of `tisnap drill list`.
type drillListDoc struct {
	header
	Items []drillItem `json:"items"`
}

// drillItem is one drill.
type drillItem struct {
	Run     cluster.RunID    `json:"run"`
	Cluster cluster.Name     `json:"cluster"`
	Backup  cluster.BackupID `json:"backup"`
	State   runs.State       `json:"state"`
	Started time.Time        `json:"started"`
	Error   string           `json:"error,omitempty"`
	// Left is true if what it made may still be there.
	Left bool `json:"mayHaveLeft"`
}

func (a *app) drillListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the drills in a storage",
		Long:    "List the drills in a storage, newest first, and which of them may have left something.",
		Example: "  tisnap drill list --storage s3://backups/prod",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, done, err := a.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			all, err := drills(cmd.Context(), store)
			if err != nil {
				return err
			}
			doc := &drillListDoc{header: newHeader("DrillList"), Items: []drillItem{}}
			for _, r := range all {
				doc.Items = append(doc.Items, drillItem{
					Run: r.ID, Cluster: r.Cluster, Backup: r.Backup, State: r.State, Started: r.Started, Error: r.Error,
					Left: r.History != nil && drill.MayHaveLeft(r.History),
				})
			}
			return a.print(doc)
		},
	}
	a.localFlag(cmd)
	return cmd
}

func (d *drillListDoc) table(w io.Writer, v view) error {
	if len(d.Items) == 0 {
		_, err := fmt.Fprintln(w, "no drills")
		return err
	}
	t := newTable(v.heading("STARTED"), "RUN", "CLUSTER", "BACKUP", "STATE", "LEFT")
	t.drop = []string{"CLUSTER", "BACKUP", v.heading("STARTED")}
	hint := ""
	for _, i := range d.Items {
		left := "nothing"
		if i.Left {
			left, hint = "maybe", "\nwhat may be left is removed by: tisnap drill clean\n"
		}
		t.row(v.cell(i.Started), i.Run, i.Cluster, i.Backup, i.State, left)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	_, err := io.WriteString(w, hint)
	return err
}

func (d *drillListDoc) names() []string {
	var out []string
	for _, i := range d.Items {
		out = append(out, "run/"+string(i.Run))
	}
	return out
}

func (a *app) drillReportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:               "report RUN",
		Short:             "Show what a drill found",
		Long:              "Show what a drill found: its three results, each check that did not pass, and its times.",
		Example:           "  tisnap drill report 20261127t180000-abcdef01 --storage s3://backups/prod",
		Args:              exactly("RUN"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, done, err := a.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			r, err := runs.Read(cmd.Context(), store, cluster.RunID(args[0]))
			if err != nil {
				return err
			}
			if r.Operation != journal.Drill {
				return failure.New(failure.Usage, "report drill", args[0], "it is a %s", r.Operation).
					WithHint("tisnap report %s", args[0])
			}
			found, err := history.Open(store).Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(newRunReport(found, f))
		},
	}
	cmd.Flags().BoolVar(&f.details, "details", false, "show the steps of each phase")
	return cmd
}

// drillCleanDoc is the output of `tisnap drill clean`.
type drillCleanDoc struct {
	header
	DryRun bool          `json:"dryRun"`
	Items  []cleanedItem `json:"items"`
	// Expired are cages and volumes that it cannot remove. A clean of one run does not look for them.
	Expired []expiredDrill `json:"expired,omitempty"`
}

// cleanedItem is a drill that was cleaned up, or would be.
type cleanedItem struct {
	Run      cluster.RunID `json:"run"`
	TearDown drill.State   `json:"tearDown"`
	Error    string        `json:"error,omitempty"`
}

func (d *drillCleanDoc) table(w io.Writer, v view) error {
	for _, c := range d.Expired {
		if _, err := fmt.Fprintln(w, oneLine(c.ToDo)); err != nil {
			return err
		}
	}
	if len(d.Items) == 0 {
		if len(d.Expired) > 0 {
			return nil
		}
		_, err := fmt.Fprintln(w, "no drill left anything")
		return err
	}
	t := newTable("RUN", "TEAR-DOWN")
	for _, i := range d.Items {
		t.row(i.Run, i.TearDown)
	}
	return t.write(w, v)
}

func (d *drillCleanDoc) names() []string {
	var out []string
	for _, i := range d.Items {
		if i.TearDown == drill.Gone {
			out = append(out, "run/"+string(i.Run))
		}
	}
	return out
}

func (a *app) drillCleanCommand() *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "clean [RUN]",
		Short: "Remove what dead drills left",
		Long: `Remove what dead drills left: the cluster, its claims, persistent volumes and EBS volumes,
and the namespace, by the drill's run and the namespace's UID. A live drill is refused. Without
RUN it is all dead drills in the storage. Use the Kubernetes cluster and the region that the
drill was in.

On a terminal it asks; otherwise it needs --yes.`,
		Example:           "  tisnap drill clean --storage s3://backups/prod --yes",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !dryRun && !a.asks() {
				return usage(cmd, errors.New("this deletes what drills made: pass --yes"))
			}
			return a.cleanDrills(cmd, args, yes, dryRun)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do it")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "list the drills that would be cleaned up; change nothing")
	return cmd
}

func (a *app) cleanDrills(cmd *cobra.Command, args []string, yes, dryRun bool) error {
	return a.operate(cmd, false, func(ctx context.Context, c *connections, s *session) (work, error) {
		d, err := a.connectDrill(ctx, c, s)
		if err != nil {
			return work{}, err
		}
		chosen, err := d.toClean(ctx, args)
		if err != nil {
			return work{}, err
		}
		if !yes && !dryRun && len(chosen) > 0 {
			s.end()
			if err := a.confirm(ctx, fmt.Sprintf("remove what %d drills left?", len(chosen))); err != nil {
				return work{}, err
			}
		}
		return work{run: func(ctx context.Context) (document, error) {
			doc := &drillCleanDoc{header: newHeader("DrillClean"), DryRun: dryRun, Items: []cleanedItem{}}
			var errs []error
			for i := range chosen {
				item := cleanedItem{Run: chosen[i].ID, TearDown: drill.Left}
				if !dryRun {
					result, err := d.clean(ctx, &chosen[i])
					item.TearDown, item.Error = result.TearDown, text(err)
					errs = append(errs, err)
				}
				doc.Items = append(doc.Items, item)
			}
			if len(args) == 0 {
				expired, denied, err := expiredDrills(ctx, d.Store, d.kube, d.EBS)
				doc.Expired, errs = expired, append(errs, denied, err)
			}
			return doc, errors.Join(errs...)
		}}, nil
	})
}

// toClean are the drills that may have left something.
func (d *drillWork) toClean(ctx context.Context, args []string) ([]runs.Run, error) {
	if len(args) > 0 {
		r, err := runs.Read(ctx, d.Store, cluster.RunID(args[0]))
		if err != nil {
			return nil, err
		}
		if r.Operation != journal.Drill {
			return nil, failure.New(failure.Usage, "clean up drill", args[0], "it is a %s", r.Operation)
		}
		if !drill.MayHaveLeft(r.History) {
			return nil, nil
		}
		return []runs.Run{*r}, nil
	}
	return deadDrills(ctx, d.Store)
}
