package exporter

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/metrics"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Options configure an exporter. Zero fields are the default.
type Options struct {
	Interval    time.Duration // between two reads of the storage; 1 min
	MaxClusters int           // with metrics; 200
	NoPage      bool          // serve only metrics
	Public      bool          // other machines can reach it; the page warns of that
	Version     string
	Prices      *estimate.Prices // of snapshots; nil shows no cost
	Log         *zap.Logger      // nil logs nothing
}

func (o Options) complete() Options {
	if o.Interval <= 0 {
		o.Interval = time.Minute
	}
	if o.MaxClusters <= 0 {
		o.MaxClusters = 200
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}

// Exporter reads a storage and serves its content. It is safe for concurrent use.
type Exporter struct {
	store   objstore.Store
	options Options
	history *history.Reader
	fleet   *fleet.Reader
	first   chan struct{} // closed once the storage has been read

	refreshing sync.Mutex // one read at a time

	mu       sync.Mutex
	current  *fleet.State
	set      *metrics.Set // of current
	failed   error        // of the last read
	duration time.Duration
}

// New makes an exporter; it reads nothing yet.
func New(store objstore.Store, o Options) *Exporter {
	h := history.Open(store)
	return &Exporter{
		store: store, options: o.complete(), history: h, fleet: fleet.Open(store, h), first: make(chan struct{}),
	}
}

// Run reads the storage now and after every interval, until ctx ends; then it returns nil. A failure to read is logged
// and retried; meanwhile it serves what was read before.
func (x *Exporter) Run(ctx context.Context) error {
	ticker := time.NewTicker(x.options.Interval)
	defer ticker.Stop()
	for {
		if err := x.Refresh(ctx); err != nil && ctx.Err() == nil {
			x.options.Log.Warn("cannot read the storage", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Refresh reads the storage once. It has a deadline of ten intervals or ten minutes, whichever is longer.
func (x *Exporter) Refresh(ctx context.Context) error {
	x.refreshing.Lock()
	defer x.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, max(10*x.options.Interval, 10*time.Minute))
	defer cancel()
	start := time.Now()
	next, err := x.fleet.Read(ctx, start)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed = err
	if err != nil {
		return failure.Annotate(err, "read storage", x.store.URL())
	}
	x.duration = time.Since(start)
	x.current, x.set = next, x.collect(next)
	select {
	case <-x.first:
	default:
		close(x.first)
	}
	return x.set.Err()
}

// latest returns what was read last. It waits for the first read until ctx ends.
func (x *Exporter) latest(ctx context.Context) (*fleet.State, error) {
	select {
	case <-x.first:
	case <-ctx.Done():
		return nil, failure.New(failure.Unready, "read storage", x.store.URL(), "the first read is still in progress")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.current, nil
}

// Describe implements prometheus.Collector: it describes nothing, because the metrics depend on the storage.
func (x *Exporter) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Before the first read it reports only that there was none.
func (x *Exporter) Collect(ch chan<- prometheus.Metric) {
	x.mu.Lock()
	current, set, failed, duration := x.current, x.set, x.failed, x.duration
	x.mu.Unlock()
	about := metrics.NewSet()
	about.AddBool("tisnap_exporter_last_refresh_success", current != nil && failed == nil)
	if current != nil {
		about.AddTime("tisnap_exporter_last_refresh_timestamp_seconds", current.Read)
		about.Add("tisnap_exporter_last_refresh_duration_seconds", duration.Seconds())
		set.Collect(ch)
	}
	about.Collect(ch)
}
