package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

type releaseFlags struct{ yes, force, all, dryRun bool }

// releasedDoc is the output of `tisnap release`.
type releasedDoc struct {
	header
	Cluster cluster.Name `json:"cluster"`
	*hold.Released
}

func (a *app) releaseCommand() *cobra.Command {
	var f releaseFlags
	cmd := &cobra.Command{
		Use:   "release CLUSTER",
		Short: "Release a cluster that a dead backup still holds",
		Long: `Release a cluster that a dead backup still holds.

A backup releases the cluster on every exit path, and its hold expires on its own if its
process is killed. This command does not wait for that: it ends the leases and the import
suspension on all stores, drops tisnap's GC safe points in PD, and restores the schedulers
and limits recorded in the journals of dead runs. It is safe to run again. Whatever no
journal accounts for stays paused, unless --all is given.

On a terminal it shows what is paused and asks; otherwise it needs --yes.

It refuses while a run holds the cluster's lock. A lock that is not being renewed is watched
for a minute before its run counts as dead. --force breaks the lock without waiting: use it
only if you know that the run is dead, because a live run loses its hold and fails.`,
		Example: `  # show what is held, and until when
  tisnap hold status tidb/prod --storage s3://backups/prod

  # show what would be released
  tisnap release tidb/prod --storage s3://backups/prod --dry-run

  # release it
  tisnap release tidb/prod --storage s3://backups/prod --yes

  # the process is known to be dead: do not wait a minute for the proof
  tisnap release tidb/prod --storage s3://backups/prod --yes --force`,
		Args:              exactly("CLUSTER"),
		ValidArgsFunction: a.completeClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !f.yes && !f.dryRun && !a.asks() {
				return usage(cmd,
					errors.New("this changes the running cluster: pass --yes, or --dry-run to see what it would do"))
			}
			return a.release(cmd.Context(), f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.yes, "yes", "y", false, "do it")
	fl.BoolVar(&f.force, "force", false, "break a dead run's lock without watching it")
	fl.BoolVar(&f.all, "all", false,
		"resume all paused schedulers and drop all limits that a backup lowers, whoever set them")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print what would be released; change nothing")
	return cmd
}

func (a *app) release(ctx context.Context, f releaseFlags, arg string) error {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return err
	}
	defer c.close()
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	name, p, err := c.running(ctx, arg)
	if err != nil {
		return err
	}
	o := backup.ReleaseOptions{Cluster: name, Force: f.force, All: f.all, EarlyApply: c.tikv(), Watching: a.watching}
	if f.dryRun || !f.yes {
		left, err := backup.PlanRelease(ctx, store, p, o)
		if err != nil {
			return err
		}
		o.Planned = left
		plan := newReleasePlan(left)
		if f.dryRun {
			return errors.Join(a.print(plan), left.Unread)
		}
		if err := plan.table(a.streams.Err, a.view()); err != nil {
			return err
		}
		if err := a.confirm(ctx, fmt.Sprintf("release cluster %s?", name)); err != nil {
			return err
		}
	}
	defer a.unfinished(phase.RemainsHold,
		fmt.Sprintf("cluster %s may still be held: run tisnap release %s --yes again", name, name))()
	done, err := backup.Release(ctx, store, p, c.tikv(), o)
	if done == nil {
		return err
	}
	return errors.Join(err, a.print(&releasedDoc{header: newHeader("Released"), Cluster: name, Released: done}))
}

// watching explains why a command waits: to find out whether a lock's owner is alive.
func (a *app) watching(held *runlock.Record) {
	_, _ = fmt.Fprintln(a.streams.Err, held.Watching())
}

// releasePlan is the output of a dry run of `tisnap release`.
type releasePlan struct {
	header
	Cluster cluster.Name `json:"cluster"`
	// Dead are the runs that held the cluster and did not release it.
	Dead []cluster.RunID `json:"dead"`
	// Schedulers and Limits would be put back; all leases and suspensions on the stores would be ended.
	Schedulers []string     `json:"schedulers"`
	Limits     []string     `json:"limits"`
	Status     *hold.Status `json:"status"`
}

func newReleasePlan(left *backup.Leftover) *releasePlan {
	d := &releasePlan{
		header: newHeader("ReleasePlan"), Cluster: left.Cluster, Dead: append([]cluster.RunID{}, left.Dead...),
		Schedulers: []string{}, Limits: []string{}, Status: left.Status,
	}
	for _, s := range left.Status.Schedulers {
		if left.All || slices.Contains(left.Schedulers, s.Name) {
			d.Schedulers = append(d.Schedulers, s.Name)
		}
	}
	for _, l := range left.Status.Limits {
		if l.Ours && (left.All || slices.Contains(left.Limits, l.Item)) {
			d.Limits = append(d.Limits, l.Item)
		}
	}
	return d
}

func (d *releasePlan) table(w io.Writer, v view) error {
	if d.Status.Held() {
		if err := statusTable(d.Status).write(w, v); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintf(w,
		"would restore %d schedulers and %d limits, drop %d GC safe points, and end all leases and suspensions of "+
			"imports on the stores of %s\n",
		len(d.Schedulers), len(d.Limits), len(d.Status.SafePoints), d.Cluster)
	return err
}

// running connects to the PD of a cluster that runs.
func (c *connections) running(ctx context.Context, arg string) (cluster.Name, *pd.Client, error) {
	k, err := c.kube()
	if err != nil {
		return cluster.Name{}, nil, err
	}
	name, err := cluster.ParseName(arg, k.Namespace())
	if err != nil {
		return name, nil, err
	}
	tc, err := k.Cluster(ctx, name)
	if err != nil {
		return name, nil, err
	}
	p, err := c.sourcePD(ctx, k, &tc)
	return name, p, err
}

func (d *releasedDoc) table(w io.Writer, v view) error {
	if !d.Any() && len(d.Kept)+len(d.KeptLimits)+len(d.Unreached) == 0 {
		_, err := fmt.Fprintf(w, "cluster %s was not held\n", d.Cluster)
		return err
	}
	t := newTable("RELEASED", "NAME")
	for _, row := range []struct {
		what  string
		names []string
	}{
		{"scheduler", d.Schedulers}, {"limit", d.Limits}, {"GC safe point", d.SafePoints},
		{"lease", storeNames(d.Leases)}, {"imports", storeNames(d.Imports)}, {"early apply", storeNames(d.EarlyApply)},
		{"KEPT: scheduler", d.Kept}, {"KEPT: limit", d.KeptLimits},
		{"NOT REACHED", storeNames(d.Unreached)},
	} {
		for _, name := range row.names {
			t.row(row.what, name)
		}
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	if len(d.Unreached) > 0 {
		if _, err := fmt.Fprintln(w,
			"\na dead run's leases on unreachable stores have expired"); err != nil {
			return err
		}
	}
	if len(d.Kept)+len(d.KeptLimits) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "\nno dead run's journal accounts for what is kept: let it expire, or use --all")
	return err
}

func storeNames(ids []cluster.StoreID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = "store " + id.String()
	}
	return names
}
