package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/history"
)

type statusFlags struct {
	filter   listFilter
	maxAge   time.Duration
	watch    bool
	interval time.Duration
}

// minInterval is the shortest time between two reads of a watched storage, each of which lists it.
const minInterval = time.Second

func (a *app) statusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [NAMESPACE/CLUSTER...|RUN|BACKUP]",
		Short: "Show how the clusters of a storage stand and what to do, or how far one run is",
		Long: `Show how each cluster of a storage stands: the age of its recovery point (the time that a restore
of its newest sealed backup returns to), when the next one is expected, what runs, whether the
cluster is held, how many runs failed since the last good one, and when one of its backups was
last restored, drilled, archived, and copied into this storage. For each cluster that is not
fine, a command to run follows. The next backup is expected after the median gap between the
last backups, at most eleven and at least three; it is overdue a quarter of that gap later. Only
the storage is read, and nothing is changed.
A cluster without a backup is left out 30 days after its last run.

With --max-age the command exits with 11 if a cluster has no good backup as young as that, or
if there is no cluster at all. Clusters that were only ever restored do not count, unless
they are named. Whenever something in the storage cannot be decoded, it exits with at least 3.

With a run, or a backup instead of the run that made it, the same as runs describe.`,
		Example: `  tisnap status --storage s3://backups/prod

  # for a monitor
  tisnap status --storage s3://backups/prod --max-age 26h -o json

  # one run
  tisnap status 20261122t100000-1a2b3c4d --storage s3://backups/prod`,
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !strings.Contains(args[0], "/") {
				return a.statusOfRun(cmd, &f, args)
			}
			names, err := a.parseClusters(args)
			if err == nil {
				err = f.validate(cmd, a.redraws())
			}
			if err != nil {
				return usage(cmd, err)
			}
			return a.statusOfClusters(cmd, &f, names)
		},
	}
	a.localFlag(cmd)
	f.filter.add(cmd, "namespace, cluster")
	fl := cmd.Flags()
	fl.DurationVar(&f.maxAge, "max-age", 0,
		"exit with 11 if a cluster has no good backup as young as this, such as 26h")
	fl.BoolVarP(&f.watch, "watch", "w", false, "redraw the terminal every --interval until Ctrl-C")
	fl.DurationVar(&f.interval, "interval", 5*time.Second, "with --watch: how often the storage is read")
	return cmd
}

func (f *statusFlags) validate(cmd *cobra.Command, redraws bool) error {
	switch {
	case f.maxAge <= 0 && cmd.Flags().Changed("max-age"):
		return fmt.Errorf("--max-age %s: want more than 0", f.maxAge)
	case f.watch && f.maxAge > 0:
		return errors.New("--watch and --max-age are mutually exclusive: a watch has no outcome")
	case f.watch && !redraws:
		return errors.New("--watch redraws a table on a terminal: a program runs the command again")
	case f.watch && f.interval < minInterval:
		return fmt.Errorf("--interval %s: want at least %s", f.interval, minInterval)
	}
	return nil
}

// statusOfRun is runs describe under the name that kubectl's users look for.
func (a *app) statusOfRun(cmd *cobra.Command, f *statusFlags, args []string) error {
	if err := exactly("RUN|BACKUP")(cmd, args); err != nil {
		return err
	}
	if f.watch || f.maxAge != 0 {
		return usage(cmd,
			fmt.Errorf("--watch and --max-age are of clusters, as NAMESPACE/NAME, and %q is none", args[0]))
	}
	r, err := a.describeRun(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	return a.print(newRunDoc(r, time.Now()))
}

func (a *app) statusOfClusters(cmd *cobra.Command, f *statusFlags, names []cluster.Name) error {
	match, err := f.filter.matcher(cmd, a.global.namespace)
	if err != nil {
		return err
	}
	store, done, err := a.openStore(cmd.Context())
	if err != nil {
		return err
	}
	defer done()
	past, cache := history.Open(store), a.global.historyCache(store)
	cache.load(past)
	defer cache.save(past)
	reader := fleet.Open(store, past)
	reader.Mark = checkCache{cache}.apply
	chosen := clusterChoice{storage: store.URL(), names: names, maxAge: f.maxAge, match: func(of cluster.Name) bool {
		return (len(names) == 0 || slices.Contains(names, of)) && match(of, map[string]string{})
	}}
	look := func(ctx context.Context) (*clustersDoc, error) {
		s, err := reader.Read(ctx, time.Now())
		if err != nil {
			return nil, err
		}
		return newClustersDoc(s, &chosen), nil
	}
	if f.watch {
		return a.watchClusters(cmd.Context(), f.interval, look)
	}
	doc, err := look(cmd.Context())
	if err != nil {
		return err
	}
	return errors.Join(doc.problem(), a.print(doc))
}
