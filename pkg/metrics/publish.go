package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/outbound"
)

// job is the job label of pushed metrics.
const job = "tisnap"

// Push replaces the metrics of this instance at a Pushgateway: instance is what the set is about, such as "tidb/prod
// backup". Attempts and timeout are those of package outbound; the error contains only the gateway's host.
func Push(ctx context.Context, rawURL, instance string, s *Set) error {
	return pushWithin(ctx, rawURL, instance, s, outbound.Limits{})
}

func pushWithin(ctx context.Context, rawURL, instance string, s *Set, l outbound.Limits) error {
	const op = "push metrics"
	if err := outbound.CheckURL(rawURL); err != nil {
		return failure.Annotate(err, op, "")
	}
	target := "gateway " + outbound.Host(rawURL)
	registry, err := s.registry()
	if err != nil {
		return failure.Wrap(err, failure.Unknown, op, target)
	}
	err = push.New(rawURL, job).Gatherer(registry).Grouping("instance", Label(instance)).Client(outbound.New(l)).
		PushContext(ctx)
	return failure.Annotate(err, op, target)
}

// WriteFile atomically replaces the file by the set: a reader sees the old or the new one. The name must end in .prom,
// as node_exporter requires.
func WriteFile(path string, s *Set) error {
	const op = "write metrics"
	registry, err := s.registry()
	if err == nil {
		err = prometheus.WriteToTextfile(path, registry)
	}
	return failure.Wrap(err, failure.Unknown, op, path)
}

func (s *Set) registry() (*prometheus.Registry, error) {
	if s.err != nil {
		return nil, s.err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(s); err != nil {
		return nil, err
	}
	return registry, nil
}
