package hold

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/wait"
)

// beatsToProve is how many renewals must be seen after the cut. The first may have been in progress when the cut ended;
// the second began later, and in it every store confirmed its lease until then.
const beatsToProve = 2

// proveOther proves the other process's hold since Observe. It waits for renewals, then compares the state of that
// process and of the stores with that before the cut.
func (h *Hold) proveOther(ctx context.Context) error {
	err := h.awaitBeats(ctx)
	if err == nil {
		err = h.proveOwn(ctx)
	}
	if err == nil {
		err = h.compare(ctx)
	}
	if err != nil {
		h.breakWith(err)
		return h.reason()
	}
	h.noteProven()
	return nil
}

// awaitBeats returns when the other process has renewed its hold beatsToProve times from now.
func (h *Hold) awaitBeats(ctx context.Context) error {
	defer h.parts.start("await renewals")()
	last, err := h.readBeat(ctx)
	if err != nil {
		return err
	}
	for range beatsToProve {
		if last, err = h.awaitBeat(ctx, last); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hold) awaitBeat(ctx context.Context, last time.Time) (time.Time, error) {
	waiting, cancel := context.WithTimeout(ctx, maxBeatWait)
	defer cancel()
	for {
		until, err := h.readBeat(waiting)
		switch {
		case err == nil && until.After(last):
			return until, nil
		case err != nil && !failure.Transient(err):
			return last, err
		}
		if wait.For(waiting, beatInterval) == nil {
			continue
		}
		if ctx.Err() != nil {
			return last, failure.Annotate(context.Cause(ctx), "wait for the other hold's renewal",
				h.cfg.Cluster.String())
		}
		return last, failure.New(failure.Conflict, "wait for the other hold's renewal", h.cfg.Cluster.String(),
			"%s did not renew its hold within %s after the cut", h.Service(), maxBeatWait).
			WithHint("see the log of `br operator pause-gc-and-schedulers`: its process is dead or stuck")
	}
}

// compare finds what an unbroken hold excludes: a restarted store, or a region that has split, merged, moved a peer or
// changed since the hold was found.
func (h *Hold) compare(ctx context.Context) error {
	starts, err := h.storeStarts(ctx)
	if err != nil {
		return err
	}
	for _, s := range h.stores {
		if was, is := h.seen.starts[s.target.ID], starts[s.target.ID]; !is.Equal(was) {
			return failure.New(failure.Conflict, "compare stores", s.name(), "it was restarted at %s",
				is.UTC().Format(time.RFC3339))
		}
	}
	if len(starts) != len(h.seen.starts) {
		return failure.New(failure.Conflict, "compare stores", h.cfg.Cluster.String(),
			"there were %d stores before the cut and are %d after it", len(h.seen.starts), len(starts))
	}
	now, err := h.settledRegions(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	before := h.regions
	h.mu.Unlock()
	return sameRegions(before, now)
}

// settledRegions lists the regions that the stores lead. None may have a pending admin command, and they may leave no
// gap.
func (h *Hold) settledRegions(ctx context.Context) ([]cluster.Region, error) {
	regions, unsettled, err := h.ledRegions(ctx)
	if err == nil {
		err = unsettled
	}
	return regions, failure.Annotate(err, "compare regions", h.cfg.Cluster.String())
}

// sameRegions fails unless both have the same regions with the same epochs. Leaders may differ: TiKV elects new ones
// under a lease too.
func sameRegions(before, now []cluster.Region) error {
	byID := func(a, b cluster.Region) int { return cmp.Compare(a.ID, b.ID) }
	before, now = slices.SortedFunc(slices.Values(before), byID), slices.SortedFunc(slices.Values(now), byID)
	for i := range max(len(before), len(now)) {
		switch {
		case i >= len(now) || i < len(before) && before[i].ID < now[i].ID:
			return failure.New(failure.Conflict, "compare regions", "region "+before[i].ID.String(),
				"it is gone: it was merged during the cut")
		case i >= len(before) || now[i].ID < before[i].ID:
			return failure.New(failure.Conflict, "compare regions", "region "+now[i].ID.String(),
				"it was not there before the cut")
		case before[i].ConfVer != now[i].ConfVer || before[i].Version != now[i].Version:
			return failure.New(failure.Conflict, "compare regions", "region "+now[i].ID.String(),
				"its epoch was %d/%d before the cut and is %d/%d after it",
				before[i].ConfVer, before[i].Version, now[i].ConfVer, now[i].Version)
		}
	}
	return nil
}

// storeStarts returns when each of PD's TiKV stores started.
func (h *Hold) storeStarts(ctx context.Context) (map[cluster.StoreID]time.Time, error) {
	all, err := h.pd.Stores(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list stores", h.cfg.Cluster.String())
	}
	starts := map[cluster.StoreID]time.Time{}
	for _, s := range all {
		if s.State != pd.StoreTombstone && s.IsTiKV() {
			starts[s.ID] = s.StartedAt
		}
	}
	return starts, nil
}
