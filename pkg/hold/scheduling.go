package hold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// limits are the config items that keep PD from starting operators: those that br lowers, and more. With the schedulers
// paused, checkers still add, remove and merge peers within these limits.
var limits = map[string]any{
	"schedule.leader-schedule-limit":       0,
	"schedule.region-schedule-limit":       0,
	"schedule.replica-schedule-limit":      0,
	"schedule.merge-schedule-limit":        0,
	"schedule.hot-region-schedule-limit":   0,
	"schedule.max-snapshot-count":          0,
	"schedule.max-pending-peer-count":      0,
	"schedule.enable-location-replacement": "false",
}

// ours reports whether a hold overrides the item with this value.
func ours(item, value string) bool {
	want, ok := limits[item]
	return ok && value == fmt.Sprint(want)
}

// Running lists the schedulers that PauseScheduling would pause, so that they can be recorded first.
func (h *Hold) Running(ctx context.Context) ([]string, error) {
	all, err := h.pd.Schedulers(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list schedulers", h.cfg.Cluster.String())
	}
	var names []string
	for _, s := range all {
		if !s.Paused {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// Lowered lists the config items that PauseScheduling would override, so that they can be recorded first.
func (h *Hold) Lowered(ctx context.Context) ([]string, error) {
	ours, _, err := h.splitLimits(ctx)
	return ours, err
}

// PauseScheduling pauses PD's schedulers and limits, and reads both back. Release does not resume a scheduler that
// others had paused.
func (h *Hold) PauseScheduling(ctx context.Context) error {
	defer h.parts.start("pause schedulers")()
	return h.Under(ctx, h.pauseScheduling)
}

func (h *Hold) pauseScheduling(ctx context.Context) error {
	before, err := h.pd.Schedulers(ctx)
	if err != nil {
		return failure.Annotate(err, "list schedulers", h.cfg.Cluster.String())
	}
	if len(before) == 0 {
		return failure.New(failure.Unready, "pause scheduling", h.cfg.Cluster.String(),
			"PD lists no schedulers, so its coordinator has not started").
			WithHint("wait a minute after PD restarts or changes its leader")
	}
	items, theirs, err := h.splitLimits(ctx)
	if err != nil {
		return err
	}
	h.begin(ctx)
	h.mu.Lock()
	for _, s := range before {
		if s.Paused {
			h.foreign[s.Name] = true
		} else {
			h.paused = append(h.paused, s.Name)
		}
	}
	h.items, h.theirs = items, theirs
	h.mu.Unlock()
	if err := h.renewScheduling(ctx); err != nil {
		return err
	}
	if err := h.checkScheduling(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	h.still = true
	h.mu.Unlock()
	return nil
}

// splitLimits returns the limits to override, and those that others already override with the same value, which stay
// theirs. It refuses if others override one with a different value: ours would replace it for good.
func (h *Hold) splitLimits(ctx context.Context) (ours, theirs []string, err error) {
	current, err := h.pd.TTLConfig(ctx)
	if err != nil {
		return nil, nil, failure.Annotate(err, "read ttl config", h.cfg.Cluster.String())
	}
	for _, item := range slices.Sorted(maps.Keys(limits)) {
		got, overridden := current[item]
		switch {
		case !overridden:
			ours = append(ours, item)
		case got == fmt.Sprint(limits[item]):
			theirs = append(theirs, item)
		default:
			return nil, nil, failure.New(failure.Conflict, "pause scheduling", h.cfg.Cluster.String(),
				"PD's %s is temporarily overridden to %s by another tool", item, got).
				WithHint("wait until the other backup, restore or import has ended, or its override has expired")
		}
	}
	return ours, theirs, nil
}

// renewScheduling pauses by name and sets the limits for one lease from now.
func (h *Hold) renewScheduling(ctx context.Context) error {
	if err := h.fenced(); err != nil {
		return err
	}
	h.lasts()
	h.mu.Lock()
	names, items := slices.Clone(h.paused), slices.Clone(h.items)
	h.mu.Unlock()
	if len(items) > 0 {
		values := make(map[string]any, len(items))
		for _, item := range items {
			values[item] = limits[item]
		}
		if err := h.pd.SetTTLConfig(ctx, values, h.cfg.Lease); err != nil {
			return failure.Annotate(err, "lower limits", h.cfg.Cluster.String())
		}
	}
	return parallel.Each(ctx, 0, names, func(ctx context.Context, _ int, name string) error {
		return failure.Annotate(h.pd.PauseScheduler(ctx, name, h.cfg.Lease), "pause scheduler", name)
	})
}

// unbroken checks, before a renewal hides it, that everything is still paused: PD forgets pauses when it restarts or
// changes its leader, and schedulers then run for a while.
func (h *Hold) unbroken(ctx context.Context) error {
	h.mu.Lock()
	still := h.still
	h.mu.Unlock()
	if !still {
		return nil
	}
	return h.checkScheduling(ctx)
}

// checkScheduling verifies that all schedulers are paused and all limits in force: a Conflict if not, Unready if PD
// does not list all of them.
func (h *Hold) checkScheduling(ctx context.Context) error {
	now, err := h.pd.Schedulers(ctx)
	if err != nil {
		return failure.Annotate(err, "list schedulers", h.cfg.Cluster.String())
	}
	var running, gone []string
	seen := map[string]bool{}
	for _, s := range now {
		seen[s.Name] = true
		if !s.Paused {
			running = append(running, s.Name)
		}
	}
	h.mu.Lock()
	for _, name := range h.paused {
		if !seen[name] {
			gone = append(gone, name)
		}
	}
	items := slices.Concat(h.items, h.theirs)
	h.mu.Unlock()
	if len(running) > 0 {
		return failure.New(failure.Conflict, "hold schedulers", h.cfg.Cluster.String(), "not paused: %s",
			strings.Join(running, ", ")).
			WithHint("check whether PD restarted or changed its leader, or another tool resumed them; then run again")
	}
	if len(gone) > 0 {
		return failure.New(failure.Unready, "hold schedulers", h.cfg.Cluster.String(), "PD no longer lists: %s",
			strings.Join(gone, ", ")).
			WithHint("check whether PD restarted or changed its leader; then run again")
	}
	overrides, err := h.pd.TTLConfig(ctx)
	if err != nil {
		return failure.Annotate(err, "read ttl config", h.cfg.Cluster.String())
	}
	for _, item := range items {
		if got, ok := overrides[item]; !ok || got != fmt.Sprint(limits[item]) {
			return failure.New(failure.Conflict, "hold limits", h.cfg.Cluster.String(), "%s is %q and not %v", item,
				got, limits[item])
		}
	}
	return nil
}

// releaseScheduling resumes the schedulers that the hold paused and drops its overrides. A scheduler unknown to PD is
// not paused: it was removed, or PD restarted and forgot all pauses.
func (h *Hold) releaseScheduling(ctx context.Context) error {
	h.mu.Lock()
	names, items := slices.Clone(h.paused), slices.Clone(h.items)
	h.still = false
	h.mu.Unlock()
	err := parallel.Each(ctx, 0, names, func(ctx context.Context, _ int, name string) error {
		if h.overInPD() {
			return nil
		}
		if err := h.pd.ResumeScheduler(ctx, name); err != nil && !failure.Is(err, failure.NotFound) {
			return failure.Annotate(err, "resume scheduler", name)
		}
		return nil
	})
	if dropErr := h.dropLimits(ctx, items); dropErr != nil {
		err = errors.Join(err, dropErr)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.paused, h.items, h.theirs = nil, nil, nil
	h.mu.Unlock()
	return nil
}

func (h *Hold) dropLimits(ctx context.Context, items []string) error {
	if len(items) == 0 || h.overInPD() {
		return nil
	}
	return failure.Annotate(h.pd.DropTTLConfig(ctx, items), "restore limits", h.cfg.Cluster.String())
}
