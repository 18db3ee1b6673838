package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
)

type releaseFlags struct{ yes, force, all bool }

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
		Short: "Let go what a backup that died holds of a cluster",
		Long: `Let go what a backup that died holds of a cluster.

A backup lets the cluster go on every way out, and what it holds expires by itself if
its process is killed. This command does not wait for that: it ends the leases and the
suspension of imports on all stores, drops tisnap's GC safe points and limits in PD, and
resumes the schedulers that the journals of dead runs name. It may be run again.

It refuses while a run holds the cluster's lock. --force breaks the lock: use it only if
you know that the run is dead, as one that lives loses its hold and fails.` + "\n" + exitStatus(),
		Example: `  # what is held, and until when
  tisnap hold status tidb/prod --storage s3://backups/prod

  # let it go
  tisnap release tidb/prod --storage s3://backups/prod --yes

  # the process is known to be dead, and its lock has not expired
  tisnap release tidb/prod --storage s3://backups/prod --yes --force`,
		Args:              exactly("CLUSTER"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !f.yes {
				return usage(cmd, errors.New("it changes the running cluster, so it needs --yes"))
			}
			return a.release(cmd.Context(), f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.yes, "yes", "y", false, "do it")
	fl.BoolVar(&f.force, "force", false, "break the lock of a run that is dead")
	fl.BoolVar(&f.all, "all", false, "resume all paused schedulers, whoever paused them")
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
	done, err := backup.Release(ctx, store, p, c.tikv(), backup.ReleaseOptions{Cluster: name, Force: f.force, All: f.all})
	if done == nil {
		return err
	}
	return errors.Join(err, a.print(&releasedDoc{header: newHeader("Released"), Cluster: name, Released: done}))
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
	p, err := c.pd(ctx, tc.PDAddresses, name)
	return name, p, err
}

func (d *releasedDoc) table(w io.Writer) error {
	if !d.Any() && len(d.Kept) == 0 {
		_, err := fmt.Fprintf(w, "nothing of cluster %s was held\n", d.Cluster)
		return err
	}
	t := newTable("RELEASED", "NAME")
	for _, row := range []struct {
		what  string
		names []string
	}{
		{"scheduler", d.Schedulers}, {"limit", d.Limits}, {"GC safe point", d.SafePoints},
		{"lease", storeNames(d.Leases)}, {"imports", storeNames(d.Imports)}, {"KEPT: scheduler", d.Kept},
	} {
		for _, name := range row.names {
			t.row(row.what, name)
		}
	}
	if err := t.write(w); err != nil || len(d.Kept) == 0 {
		return err
	}
	_, err := fmt.Fprintln(w, "\nno dead run is known to have paused the schedulers kept: they expire by themselves, or use --all")
	return err
}

func storeNames(ids []cluster.StoreID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = "store " + id.String()
	}
	return names
}
