package cli

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/exporter"
	"github.com/tisnap/tisnap/pkg/failure"
)

type exporterFlags struct {
	listen   string
	interval time.Duration
	clusters int
	page     bool
	prices   string
}

func (a *app) exporterCommand() *cobra.Command {
	var f exporterFlags
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve metrics of a storage for Prometheus, and a read-only page for a browser",
		Long: `Serve metrics of a storage for Prometheus, and a read-only page for a browser.

The storage is read at each --interval: how old the newest sealed backup of each cluster is,
how long the last runs and their phases took, who holds a lock, whether a cluster is held
although no run lives. /metrics has the metrics, / has the backups, their reports and the
progress of runs under way. Nothing is changed, and no request can make it do so: it needs
to list and read the storage, and nothing else of AWS, Kubernetes or PD.

By default only this machine is served. There is no password: another address is for a
network whose members may all read names of clusters and backups, and error texts.` + "\n" + exitStatus(),
		Example: `  # for this machine
  tisnap exporter --storage s3://backups/prod

  # in a pod, for Prometheus
  tisnap exporter --storage s3://backups/prod --listen :9090`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return usage(cmd, err)
			}
			return a.exporter(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:9090", "address to serve on; :9090 is all of this machine's")
	fl.DurationVar(&f.interval, "interval", time.Minute, "how often the storage is read")
	fl.IntVar(&f.clusters, "max-clusters", 200,
		"how many clusters have metrics at most, those that were active last; each has some 150 time series")
	fl.BoolVar(&f.page, "page", true, "serve the page too; --page=false serves metrics alone")
	fl.StringVar(&f.prices, "prices", "",
		"TOML file of prices, for what snapshots cost (default: the shipped ones of us-east-1)")
	return cmd
}

func (f *exporterFlags) validate() error {
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return fmt.Errorf("--listen %q: want HOST:PORT", f.listen)
	}
	if f.interval < 5*time.Second {
		return fmt.Errorf("--interval %s: want at least 5s", f.interval)
	}
	if f.clusters < 1 || f.clusters > 2000 {
		return fmt.Errorf("--max-clusters %d: want 1 to 2000", f.clusters)
	}
	return nil
}

// exporter serves until a signal ends it, which is no failure.
func (a *app) exporter(ctx context.Context, f exporterFlags) error {
	prices, err := estimate.ReadPrices(f.prices)
	if err != nil {
		return err
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	c, err := a.connections(s.log)
	if err != nil {
		return err
	}
	defer c.close()
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return failure.Wrap(err, failure.Usage, "listen", f.listen)
	}
	public := !onlyThisMachine(listener.Addr())
	x := exporter.New(store, exporter.Options{
		Interval: f.interval, MaxClusters: f.clusters, NoPage: !f.page, Public: public, Version: a.version.Version,
		Log: s.log, Prices: prices,
	})
	fmt.Fprintf(a.streams.Err, "serving %s at http://%s/ and /metrics\n", store.URL(), listener.Addr())
	if public {
		fmt.Fprintln(a.streams.Err,
			"warning: everyone who reaches this address can read names of clusters and backups, and error texts; "+
				"nothing can be changed there")
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() { _ = x.Run(ctx) }) // it ends with ctx alone
	return x.Serve(ctx, listener)
}

// onlyThisMachine reports whether a listener's address is one that no other machine reaches.
func onlyThisMachine(addr net.Addr) bool {
	host, _, err := net.SplitHostPort(addr.String())
	return err == nil && exporter.Loopback(host)
}
