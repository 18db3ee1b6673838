package hold

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

// settleInterval is how often pending admin commands and aborted regions are checked again.
const settleInterval = 50 * time.Millisecond

// settled is a region's state when its leader had applied its log: the next round must find it unchanged.
type settled struct {
	confVer, version uint64
	leader           cluster.StoreID
}

// awaitSettledRegions waits until the regions no longer change, in the only order that proves it. The leases are
// already taken, but a merge or split proposed just before them counts as pending only once its first command is
// applied, and may then complete under the lease. So every region applies its log, *then* no region is pending and the
// ranges that the stores report leading tile the key space; rounds repeat until a whole one changes nothing. It is
// bounded by half of the budget.
func (h *Hold) awaitSettledRegions(ctx context.Context) error {
	limit := h.cfg.MaxHold / 2
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	applied := map[cluster.RegionID]settled{}
	var why error // from the latest round
	for round := 1; ; round++ {
		regions, unsettled, err := h.settleOnce(limited, applied)
		if err == nil && regions != nil {
			h.log.Info("the regions have settled", zap.Int("rounds", round), zap.Int("regions", len(regions)))
			h.keepRegions(regions)
			return nil
		}
		if err == nil && unsettled == nil {
			continue // all have applied: the next round shows whether anything has changed since
		}
		if unsettled != nil {
			why = unsettled // even if the round is cut short later
		}
		if err == nil {
			h.log.Info("the regions have not settled yet", zap.Int("round", round), zap.Error(why))
			err = wait.For(limited, settleInterval)
		}
		switch {
		case err == nil:
			continue
		case limited.Err() == nil || ctx.Err() != nil:
			return err
		case why == nil:
			why = err
		}
		return failure.New(failure.Limited, "settle regions", h.cfg.Cluster.String(),
			"not within %s, half of %s %s: %w: %w",
			limit, h.cfg.Budget, h.cfg.MaxHold, ErrBudget, why).
			WithHint("find out what merges, splits or moves regions, or which store does not apply its logs, and run " +
				"it again")
	}
}

// settleOnce runs one round: regions are the settled ones, nil while one is not. unsettled is the reason.
func (h *Hold) settleOnce(
	ctx context.Context, applied map[cluster.RegionID]settled,
) (regions []cluster.Region, unsettled, err error) {
	led, unsettled, err := h.ledRegions(ctx)
	if err != nil {
		return nil, nil, err
	}
	left := notApplied(led, applied)
	if len(left) == 0 && unsettled == nil {
		return led, nil, nil
	}
	failed, err := h.applyOnce(ctx, left, applied)
	if unsettled == nil {
		unsettled = failed
	}
	return nil, unsettled, err
}

func (h *Hold) keepRegions(regions []cluster.Region) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.regions = regions
}

// notApplied returns the regions that have changed, or got another leader, since they applied their logs.
func notApplied(regions []cluster.Region, applied map[cluster.RegionID]settled) []cluster.Region {
	var left []cluster.Region
	for _, r := range regions {
		if applied[r.ID] != (settled{r.ConfVer, r.Version, r.Leader.Store}) {
			left = append(left, r)
		}
	}
	return left
}

// ledRegions lists the regions that the held stores report leading. unsettled is why they may still change: one has a
// pending admin command or a replica on a store that is not held, or they do not tile the key space.
func (h *Hold) ledRegions(ctx context.Context) (regions []cluster.Region, unsettled, err error) {
	defer h.parts.start("pending admin commands")()
	led, pending := make([][]cluster.Region, len(h.stores)), make([][]cluster.RegionID, len(h.stores))
	err = parallel.Each(ctx, 0, h.stores, func(ctx context.Context, i int, s *store) (err error) {
		ctx, cancel := context.WithTimeout(ctx, h.callLimit())
		defer cancel()
		led[i], pending[i], err = h.tikv.LedRegions(ctx, s.target.Address)
		return failure.Annotate(err, "check pending admin commands", s.name())
	})
	if err != nil {
		return nil, nil, err
	}
	held := map[cluster.StoreID]bool{}
	var moving []cluster.RegionID
	for i, s := range h.stores {
		held[s.target.ID] = true
		moving = append(moving, pending[i]...)
		for _, r := range led[i] {
			r.Leader = peerOn(r, s.target.ID)
			regions = append(regions, r)
		}
	}
	if len(moving) > 0 {
		return regions, failure.New(failure.Unready, "wait for admin commands", h.cfg.Cluster.String(),
			"%d regions still split, merge or move peers, such as region %s", len(moving), moving[0]), nil
	}
	return regions, covered(regions, held), nil
}

// peerOn returns the region's peer on the store that reports leading it.
func peerOn(r cluster.Region, id cluster.StoreID) cluster.Peer {
	for _, p := range r.Peers {
		if p.Store == id {
			return p
		}
	}
	return cluster.Peer{Store: id}
}

// covered checks that the regions cover the key space exactly, and that all of their voters are on held stores.
func covered(regions []cluster.Region, held map[cluster.StoreID]bool) error {
	ranges := make([]cluster.KeyRange, 0, len(regions))
	for _, r := range regions {
		for _, p := range r.Peers {
			if !p.Learner && !held[p.Store] {
				return failure.New(failure.Unready, "find replicas", "region "+r.ID.String(),
					"one is on store %s, which is not held: did a store join?", p.Store)
			}
		}
		ranges = append(ranges, r.Keys)
	}
	return failure.Annotate(cluster.Tile(ranges, 3), "check the ranges that the held stores lead", "")
}

// applyOnce asks the leaders of these regions to apply their logs, and records those that did. failed names one that
// did not: the next round asks its then leader again.
func (h *Hold) applyOnce(
	ctx context.Context, regions []cluster.Region, applied map[cluster.RegionID]settled,
) (failed, err error) {
	if len(regions) == 0 {
		return nil, nil
	}
	defer h.parts.start("wait apply")()
	byStore := map[cluster.StoreID][]cluster.Region{}
	for _, r := range regions {
		byStore[r.Leader.Store] = append(byStore[r.Leader.Store], r)
	}
	aborted := make([]map[cluster.RegionID]error, len(h.stores))
	err = parallel.Each(ctx, 0, h.stores, func(ctx context.Context, i int, s *store) (err error) {
		if len(byStore[s.target.ID]) == 0 {
			return nil
		}
		defer s.times.start("wait apply")()
		aborted[i], err = s.waitApply(ctx, byStore[s.target.ID])
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, s := range h.stores {
		for _, r := range byStore[s.target.ID] {
			if reason, bad := aborted[i][r.ID]; bad {
				failed = failure.Annotate(reason, "wait apply", s.name())
				continue
			}
			applied[r.ID] = settled{r.ConfVer, r.Version, r.Leader.Store}
		}
	}
	return failed, nil
}
