package hold

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// beatInterval is how often the safe point of another process is read.
const beatInterval = 250 * time.Millisecond

// maxBeatWait is how long to wait for one renewal by the other process: a live one renews more often.
const maxBeatWait = 45 * time.Second

// observation is what is known about another process's hold.
type observation struct {
	until  time.Time                     // when its safe point expires, as last read
	starts map[cluster.StoreID]time.Time // when each store was started
	ends   sync.Once
	cancel context.CancelFunc
	polls  sync.WaitGroup
}

// Observe finds another process's hold on the cluster and returns it as a Hold that can prove but never pauses, renews
// or releases anything. It finds out cfg.Run.
//
// A store has one lease, and a second stream would end the first one and with it the other's hold, so the stores cannot
// be asked. Instead this relies on what the other process writes into PD: it sets its safe point once everything else
// is held, renews it last in each round, in which every store has confirmed that its lease was valid throughout, and
// removes it when the hold breaks. In addition, schedulers, limits, GC, the stores' start times and the regions that
// the stores lead are compared. Another program's hold, such as PingCAP's br's, gives no such proof: Unready. Several
// holds at once are a Conflict.
func Observe(ctx context.Context, cfg Config, p PD, t tikv.Holder) (*Hold, error) {
	h, err := New(cfg, p, t)
	if err != nil {
		return nil, err
	}
	if err := h.findOther(ctx); err != nil {
		return nil, err
	}
	if err := h.expectPauses(ctx); err != nil {
		return nil, err
	}
	regions, err := h.settledRegions(ctx)
	if err != nil {
		return nil, err
	}
	h.keepRegions(regions)
	if h.seen.starts, err = h.storeStarts(ctx); err != nil {
		return nil, err
	}
	polling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.seen.cancel = cancel
	h.seen.polls.Go(func() { h.watchOver("watch the other hold", func() { h.watch(polling) }) })
	return h, nil
}

// expectPauses records what the other process has paused in PD, for Prove, and checks it now.
func (h *Hold) expectPauses(ctx context.Context) error {
	all, err := h.pd.Schedulers(ctx)
	if err != nil {
		return failure.Annotate(err, "list schedulers", h.cfg.Cluster.String())
	}
	if len(all) == 0 {
		return failure.New(failure.Unready, "check the other hold", h.cfg.Cluster.String(),
			"PD lists no schedulers, so its coordinator has not started").
			WithHint("wait a minute after PD restarts or changes its leader, and hold the cluster again")
	}
	h.mu.Lock()
	for _, s := range all {
		h.paused = append(h.paused, s.Name)
	}
	h.theirs = slices.Sorted(maps.Keys(limits))
	h.mu.Unlock()
	return h.proveOwn(ctx)
}

// findOther waits until one of the safe points in PD is renewed, as only a live process does.
func (h *Hold) findOther(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxBeatWait)
	defer cancel()
	first := map[string]pd.SafePoint{}
	for {
		points, foreign, err := h.others(ctx)
		if err != nil {
			return err
		}
		var alive []pd.SafePoint
		for _, s := range points {
			if before, known := first[s.Service]; !known {
				first[s.Service] = s
			} else if s.ExpiredAt.After(before.ExpiredAt) {
				alive = append(alive, s)
			}
		}
		switch {
		case len(points) == 0:
			return h.noOther(foreign)
		case len(alive) > 1:
			return failure.New(failure.Conflict, "find the hold", h.cfg.Cluster.String(),
				"two processes hold the cluster: %s and %s", alive[0].Service, alive[1].Service).
				WithHint("stop one of them")
		case len(alive) == 1:
			run, _ := runOf(alive[0])
			h.cfg.Run, h.safePoint = run, alive[0].TS
			h.seen = &observation{until: alive[0].ExpiredAt}
			return nil
		}
		if wait.For(ctx, beatInterval) != nil {
			return failure.New(failure.Unready, "find the hold", h.cfg.Cluster.String(),
				"the safe point %s was not renewed within %s: its process is dead or stuck",
				strings.Join(slices.Sorted(maps.Keys(first)), ", "), maxBeatWait).
				WithHint("see the log of `br operator pause-gc-and-schedulers`, and hold the cluster again")
		}
	}
}

// others lists this program's safe points and the names of br's. PD's clock, not this machine's, decides whether one
// has expired; a live process renews it.
func (h *Hold) others(ctx context.Context) (points []pd.SafePoint, foreign []string, err error) {
	services, _, err := h.pd.SafePoints(ctx)
	if err != nil {
		return nil, nil, failure.Annotate(err, "list safe points", h.cfg.Cluster.String())
	}
	for _, s := range services {
		switch _, ours := runOf(s); {
		case ours:
			points = append(points, s)
		case strings.HasPrefix(s.Service, brPrefix):
			foreign = append(foreign, s.Service)
		}
	}
	return points, foreign, nil
}

func (h *Hold) noOther(foreign []string) error {
	if len(foreign) == 0 {
		return failure.New(failure.Unready, "find the hold", h.cfg.Cluster.String(), "no process holds the cluster").
			WithHint(
				"run `br operator pause-gc-and-schedulers` first, and keep it running until this process has ended")
	}
	return failure.New(failure.Unready, "find the hold", h.cfg.Cluster.String(),
		"it is held by %s, which offers no proof that the hold is unbroken",
		strings.Join(foreign, ", ")).WithHint("use the same image for both: set toolImage to this one in both")
}

// watch breaks the hold as soon as the other process removes its safe point.
func (h *Hold) watch(ctx context.Context) {
	for wait.For(ctx, beatInterval) == nil {
		if _, err := h.readBeat(ctx); failure.Is(err, failure.Conflict) {
			h.breakWith(err)
			return
		}
	}
}

// readBeat reads when the other's safe point expires. A missing or raised one is a Conflict.
func (h *Hold) readBeat(ctx context.Context) (time.Time, error) {
	services, _, err := h.pd.SafePoints(ctx)
	if err != nil {
		return time.Time{}, failure.Annotate(err, "list safe points", h.cfg.Cluster.String())
	}
	lost := func(format string, args ...any) (time.Time, error) {
		return time.Time{}, failure.New(failure.Conflict, "check the other hold", h.cfg.Cluster.String(), format,
			args...).
			WithHint("see the log of `br operator pause-gc-and-schedulers`: it has ended, or its hold broke")
	}
	for _, s := range services {
		switch {
		case s.Service != h.Service():
		case s.TS > h.heldGC():
			return lost("the safe point of %s was raised from %s to %s", s.Service, h.heldGC(), s.TS)
		default:
			return s.ExpiredAt, nil
		}
	}
	return lost("the safe point of %s is gone", h.Service())
}

func (h *Hold) heldGC() cluster.TS {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.safePoint
}

func (o *observation) stop() {
	o.ends.Do(func() {
		if o.cancel != nil {
			o.cancel()
		}
	})
	o.polls.Wait()
}
