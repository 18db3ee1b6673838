package pd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// ttlPrefix is where PD's etcd has the overrides, which GET config does not show.
const ttlPrefix = "/config/ttl/"

// Schedulers lists all schedulers with their pauses, by name. ResumeAt is PD's, to the second.
func (c *Client) Schedulers(ctx context.Context) ([]Scheduler, error) {
	const op = "list schedulers"
	var names []string
	if err := c.rest.call(ctx, http.MethodGet, apiPrefix+"/schedulers", nil, &names, mayRepeat); err != nil {
		return nil, translate(ctx, err, op, "")
	}
	var paused []struct {
		Name     string    `json:"name"`
		ResumeAt time.Time `json:"resume_at"`
	}
	if err := c.rest.call(ctx, http.MethodGet, apiPrefix+"/schedulers?status=paused&timestamp=true", nil, &paused,
		mayRepeat); err != nil {
		return nil, translate(ctx, err, op, "paused")
	}
	schedulers := make([]Scheduler, 0, len(names))
	for _, name := range names {
		s := Scheduler{Name: name}
		for _, p := range paused {
			if p.Name == name {
				s.Paused, s.ResumeAt = true, p.ResumeAt
			}
		}
		schedulers = append(schedulers, s)
	}
	sort.Slice(schedulers, func(i, j int) bool { return schedulers[i].Name < schedulers[j].Name })
	return schedulers, nil
}

// PauseScheduler pauses one scheduler for ttl, in whole seconds rounded up. Idempotent; an unknown scheduler is
// NotFound. PD's "all" is Usage: until the coordinator has started, PD reports success and pauses nothing.
func (c *Client) PauseScheduler(ctx context.Context, name string, ttl time.Duration) error {
	if ttl <= 0 {
		return failure.New(failure.Usage, "pause scheduler", name, "ttl %s is not positive", ttl)
	}
	return c.delayScheduler(ctx, "pause scheduler", name, seconds(ttl))
}

// ResumeScheduler resumes one scheduler. Idempotent; an unknown one is NotFound.
func (c *Client) ResumeScheduler(ctx context.Context, name string) error {
	return c.delayScheduler(ctx, "resume scheduler", name, 0)
}

func (c *Client) delayScheduler(ctx context.Context, op, name string, delay int64) error {
	if name == "" || name == "all" {
		return failure.New(failure.Usage, op, fmt.Sprintf("%q", name), "is not the name of a scheduler").
			WithHint("list the schedulers and name each")
	}
	body := map[string]int64{"delay": delay}
	err := c.rest.call(ctx, http.MethodPost, apiPrefix+"/schedulers/"+url.PathEscape(name), body, nil, mayRepeat)
	return translate(ctx, err, op, name)
}

// SetTTLConfig overrides config items for ttl, in whole seconds rounded up. It takes effect at once and survives
// a change of PD's leader. Idempotent; an item that PD cannot override is Usage.
func (c *Client) SetTTLConfig(ctx context.Context, items map[string]any, ttl time.Duration) error {
	const op = "set ttl config"
	if ttl <= 0 || len(items) == 0 {
		return failure.New(failure.Usage, op, "", "%d items for %s", len(items), ttl)
	}
	path := fmt.Sprintf("%s/config?ttlSecond=%d", apiPrefix, seconds(ttl))
	return translate(ctx, c.rest.call(ctx, http.MethodPost, path, items, nil, mayRepeat), op, itemNames(items))
}

// TTLConfig reads the overrides in force from PD's etcd, by item.
func (c *Client) TTLConfig(ctx context.Context) (map[string]string, error) {
	pairs, err := c.etcdPrefix(ctx, ttlPrefix)
	if err != nil {
		return nil, translate(ctx, err, "read ttl config", "")
	}
	items := map[string]string{}
	for _, kv := range pairs {
		items[strings.TrimPrefix(string(kv.Key), ttlPrefix)] = string(kv.Value)
	}
	return items, nil
}

// DropTTLConfig removes overrides. Idempotent; without items it does nothing.
func (c *Client) DropTTLConfig(ctx context.Context, items []string) error {
	if len(items) == 0 {
		return nil
	}
	body := map[string]any{}
	for _, item := range items {
		body[item] = 0 // PD requires a value and ignores it
	}
	err := c.rest.call(ctx, http.MethodPost, apiPrefix+"/config?ttlSecond=0", body, nil, mayRepeat)
	return translate(ctx, err, "drop ttl config", itemNames(body))
}

func itemNames(items map[string]any) string {
	names := make([]string, 0, len(items))
	for name := range items {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, ",")
}

// seconds rounds up: a pause must not end early.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
