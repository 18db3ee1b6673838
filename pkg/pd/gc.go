package pd

import (
	"context"
	"net/http"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
)

// forever is the expiry of a safe point that does not expire: PD's own number is too large for a Time to print.
func forever() time.Time { return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) }

// SafePoints lists the service safe points and the cluster's GC safe point.
func (c *Client) SafePoints(ctx context.Context) (services []SafePoint, gc cluster.TS, err error) {
	var answer struct {
		Services []struct {
			ID        string `json:"service_id"`
			ExpiredAt int64  `json:"expired_at"`
			TS        uint64 `json:"safe_point"`
		} `json:"service_gc_safe_points"`
		GC uint64 `json:"gc_safe_point"`
	}
	if err := c.rest.call(ctx, http.MethodGet, apiPrefix+"/gc/safepoint", nil, &answer, mayRepeat); err != nil {
		return nil, 0, translate(ctx, err, "list safe points", "")
	}
	for _, s := range answer.Services {
		point := SafePoint{Service: s.ID, TS: cluster.TS(s.TS), ExpiredAt: forever()}
		if s.ExpiredAt < forever().Unix() {
			point.ExpiredAt = time.Unix(s.ExpiredAt, 0).UTC()
		}
		services = append(services, point)
	}
	return services, cluster.TS(answer.GC), nil
}

// HoldGC sets the service's safe point for ttl, in whole seconds rounded up, and returns the lowest one of
// all services. If that is above ts, PD has rejected ts without an error. Idempotent.
func (c *Client) HoldGC(ctx context.Context, service string, ts cluster.TS, ttl time.Duration) (cluster.TS, error) {
	const op = "hold gc"
	if ttl <= 0 || service == "" {
		return 0, failure.New(failure.Usage, op, service, "needs a service and a positive ttl, not %s", ttl)
	}
	if err := fenced.Check(ctx); err != nil {
		return 0, translate(ctx, err, op, service)
	}
	lowest, err := c.setSafePoint(ctx, service, seconds(ttl), ts)
	if err != nil {
		return 0, translate(ctx, err, op, service)
	}
	return cluster.TS(lowest), nil
}

// ReleaseGC removes the service's safe point. Idempotent.
func (c *Client) ReleaseGC(ctx context.Context, service string) error {
	const op = "release gc"
	if service == "" {
		return failure.New(failure.Usage, op, "", "needs a service")
	}
	if err := fenced.Check(ctx); err != nil {
		return translate(ctx, err, op, service)
	}
	_, err := c.setSafePoint(ctx, service, 0, 0)
	return translate(ctx, err, op, service)
}

// setSafePoint sets a service's safe point for ttl seconds, or removes it if ttl is 0, and returns the lowest of
// all services.
func (c *Client) setSafePoint(ctx context.Context, service string, ttl int64, ts cluster.TS) (uint64, error) {
	//nolint:staticcheck // PD 8.5 has no GC barriers
	return c.rpc.UpdateServiceGCSafePoint(ctx, service, ttl, uint64(ts))
}
