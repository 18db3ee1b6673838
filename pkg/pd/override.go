package pd

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Overrides lists the overrides in force by item, each with the expiry of its lease in PD's etcd.
func (c *Client) Overrides(ctx context.Context) ([]Override, error) {
	const op = "read ttl config"
	pairs, err := c.etcdPrefix(ctx, ttlPrefix)
	if err != nil {
		return nil, translate(ctx, err, op, "")
	}
	overrides := make([]Override, 0, len(pairs))
	for _, kv := range pairs {
		o := Override{Item: strings.TrimPrefix(string(kv.Key), ttlPrefix), Value: string(kv.Value)}
		if o.Until, err = c.leaseEnd(ctx, kv.Lease); err != nil {
			return nil, translate(ctx, err, op, o.Item)
		}
		overrides = append(overrides, o)
	}
	return overrides, nil
}

// leaseEnd returns when a lease in PD's etcd expires; zero without a lease, or if the gateway does not know it.
func (c *Client) leaseEnd(ctx context.Context, id int64) (time.Time, error) {
	if id == 0 {
		return time.Time{}, nil
	}
	query := map[string]string{"ID": strconv.FormatInt(id, 10)}
	var answer struct {
		TTL int64 `json:"TTL,string"` // seconds left; -1 once expired
	}
	err := c.rest.call(ctx, http.MethodPost, "/v3/lease/timetolive", query, &answer, mayRepeat)
	if err != nil && failure.Is(translate(ctx, err, "", ""), failure.NotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(time.Duration(answer.TTL) * time.Second).UTC().Truncate(time.Second), nil
}
