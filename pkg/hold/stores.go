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

// Connect opens a stream to every store. Nothing is paused: if one store does not answer, none was.
func (h *Hold) Connect(ctx context.Context) error {
	defer h.parts.start("connect")()
	return parallel.Each(ctx, 0, h.stores, func(ctx context.Context, _ int, s *store) error {
		defer s.times.start("connect")()
		return s.connect(ctx, h.tikv)
	})
}

// PauseStores denies imports and raft admin commands on all stores at the same time, then waits until no
// admin command is pending, the leaders' ranges cover the key space, and every region has applied its log.
func (h *Hold) PauseStores(ctx context.Context) error {
	return h.Under(ctx, func(ctx context.Context) error {
		h.begin(ctx)
		for _, part := range []func(context.Context) error{h.pauseImports, h.pauseAdmin, h.awaitAdmin, h.awaitApply} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *Hold) pauseImports(ctx context.Context) error {
	defer h.parts.start("suspend imports")()
	ctx, cancel := context.WithTimeout(ctx, h.callLimit())
	defer cancel()
	return parallel.Each(ctx, 0, h.stores, func(ctx context.Context, _ int, s *store) error {
		defer s.times.start("suspend imports")()
		return s.suspendImports(ctx, h.tikv, h.Service(), h.cfg.Lease)
	})
}

func (h *Hold) pauseAdmin(ctx context.Context) error {
	defer h.parts.start("pause admin commands")()
	ctx, cancel := context.WithTimeout(ctx, h.callLimit())
	defer cancel()
	return parallel.Each(ctx, 0, h.stores, func(ctx context.Context, _ int, s *store) error {
		defer s.times.start("pause admin commands")()
		return s.renew(ctx, h.cfg.Lease)
	})
}

// awaitAdmin waits until no region has a conf change, merge or split under way.
func (h *Hold) awaitAdmin(ctx context.Context) error {
	defer h.parts.start("pending admin commands")()
	for {
		pending := make([][]cluster.RegionID, len(h.stores))
		err := parallel.Each(ctx, 0, h.stores, func(ctx context.Context, i int, s *store) error {
			ctx, cancel := context.WithTimeout(ctx, h.callLimit())
			defer cancel()
			ids, _, err := h.tikv.PendingAdmin(ctx, s.target.Address)
			pending[i] = ids
			return failure.Annotate(err, "check pending admin commands", s.name())
		})
		if err != nil {
			return err
		}
		var left []cluster.RegionID
		for _, ids := range pending {
			left = append(left, ids...)
		}
		if len(left) == 0 {
			return nil
		}
		h.log.Info("regions have admin commands under way", zap.Int("regions", len(left)))
		if err := wait.For(ctx, settleInterval); err != nil {
			return failure.New(failure.Limited, "wait for admin commands", h.cfg.Cluster.String(),
				"%d regions still split, merge or move peers, such as region %s: %w", len(left), left[0], err)
		}
	}
}

// awaitApply asks every region's leader to apply its log, and asks again for just those that aborted.
func (h *Hold) awaitApply(ctx context.Context) error {
	defer h.parts.start("wait apply")()
	done := map[cluster.RegionID]uint64{} // version at which the region has applied
	for {
		regions, err := h.covered(ctx)
		if err != nil {
			return err
		}
		byStore := map[cluster.StoreID][]cluster.Region{}
		left := 0
		for _, r := range regions {
			if v, ok := done[r.ID]; !ok || v != r.Version {
				byStore[r.Leader.Store] = append(byStore[r.Leader.Store], r)
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if err := h.applyOnce(ctx, byStore, done); err != nil {
			return err
		}
		if len(done) >= len(regions) {
			continue // list the regions once more: nothing may have changed meanwhile
		}
		if err := wait.For(ctx, settleInterval); err != nil {
			return failure.New(failure.Limited, "wait apply", h.cfg.Cluster.String(), "%d regions left: %w", len(regions)-len(done), err)
		}
	}
}

func (h *Hold) applyOnce(ctx context.Context, byStore map[cluster.StoreID][]cluster.Region, done map[cluster.RegionID]uint64) error {
	failed := make([]map[cluster.RegionID]error, len(h.stores))
	err := parallel.Each(ctx, 0, h.stores, func(ctx context.Context, i int, s *store) error {
		if len(byStore[s.target.ID]) == 0 {
			return nil
		}
		defer s.times.start("wait apply")()
		var err error
		failed[i], err = s.waitApply(ctx, byStore[s.target.ID])
		return err
	})
	if err != nil {
		return err
	}
	for i, s := range h.stores {
		for _, r := range byStore[s.target.ID] {
			if reason, bad := failed[i][r.ID]; bad {
				h.log.Info("wait apply aborted", zap.Stringer("region", r.ID), zap.Error(reason))
				continue
			}
			done[r.ID] = r.Version
		}
	}
	return nil
}

// covered reads all regions from PD until each has a leader on a held store and they cover the key space.
func (h *Hold) covered(ctx context.Context) ([]cluster.Region, error) {
	held := map[cluster.StoreID]bool{}
	for _, s := range h.stores {
		held[s.target.ID] = true
	}
	for {
		regions, err := h.pd.Regions(ctx, cluster.KeyRange{})
		if err != nil {
			return nil, failure.Annotate(err, "list regions", h.cfg.Cluster.String())
		}
		bad := led(regions, held)
		if bad == nil {
			return regions, nil
		}
		if err := wait.For(ctx, settleInterval); err != nil {
			return nil, failure.New(failure.Unready, "cover key space by leaders", h.cfg.Cluster.String(), "%w: %w", bad, err)
		}
	}
}

// led checks that every region has a leader on a held store and that together they cover the key space.
func led(regions []cluster.Region, held map[cluster.StoreID]bool) error {
	ranges := make([]cluster.KeyRange, 0, len(regions))
	for _, r := range regions {
		if !held[r.Leader.Store] {
			return failure.New(failure.Unready, "find leader", "region "+r.ID.String(), "none on a store that is held")
		}
		for _, p := range r.Peers {
			if !p.Learner && !held[p.Store] {
				return failure.New(failure.Unready, "find replicas", "region "+r.ID.String(), "one is on store %s, which is not held: did a store join?", p.Store)
			}
		}
		ranges = append(ranges, cluster.KeyRange{Start: r.Start, End: r.End})
	}
	return cluster.Tile(ranges, 3)
}
