package hold

import (
	"context"

	"github.com/tisnap/tisnap/pkg/parallel"
)

// Connect opens a stream to every store. Nothing is paused yet: if one store does not answer, none was paused.
func (h *Hold) Connect(ctx context.Context) error {
	defer h.parts.start("connect")()
	return parallel.Each(ctx, 0, h.stores, func(ctx context.Context, _ int, s *store) error {
		defer s.times.start("connect")()
		return s.connect(ctx, h.tikv)
	})
}

// PauseStores denies imports and raft admin commands on all stores concurrently, then waits until every region has
// applied its log, no admin command is pending, and the ranges that the stores lead cover the key space.
func (h *Hold) PauseStores(ctx context.Context) error {
	return h.Under(ctx, func(ctx context.Context) error {
		h.begin(ctx)
		for _, part := range []func(context.Context) error{h.pauseImports, h.pauseAdmin, h.awaitSettledRegions} {
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
