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

It reads the storage every --interval: the age of each cluster's newest sealed backup, how
long the last runs and their phases took, who holds a lock, and whether a cluster is held by
a dead run. /metrics serves the metrics; / serves the backups, their reports and the progress
of running runs. It is read-only, and no request can change anything: it needs permission to
list and read the storage, and nothing else in AWS, Kubernetes or PD.

By default it listens on this machine only. There is no password: listen elsewhere only on a
network where everyone may read names of clusters and backups, and error texts.`,
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
	fl.StringVar(&f.listen, "listen", "127.0.0.1:9090", "address to listen on; :9090 listens on all interfaces")
	fl.DurationVar(&f.interval, "interval", time.Minute, "how often the storage is read")
	fl.IntVar(&f.clusters, "max-clusters", 200,
		"maximum number of clusters with metrics, most recently active first; each has about 150 time series")
	fl.BoolVar(&f.page, "page", true, "serve the page too; --page=false serves metrics alone")
	fl.StringVar(&f.prices, "prices", "",
		"TOML file with prices, for the cost of snapshots (default: built-in us-east-1 prices)")
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

// exporter serves until a signal stops it, which is not a failure.
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
			"warning: anyone who can reach this address can read names of clusters and backups, and error texts; it "+
				"is read-only")
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() { _ = x.Run(ctx) }) // it ends only with ctx
	return x.Serve(ctx, listener)
}

// onlyThisMachine reports whether no other machine can reach the listener's address.
func onlyThisMachine(addr net.Addr) bool {
	host, _, err := net.SplitHostPort(addr.String())
	return err == nil && exporter.Loopback(host)
}
