package resolve

import (
	"context"
	"errors"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// prepare blocks every region of the key space for everything but this flashback.
func (r *Resolver) prepare(ctx context.Context, s *phase.Scope) error {
	return r.sweep(ctx, s, func(ctx context.Context, address string, f tikv.Flashback) error {
		return r.tikv.PrepareFlashback(ctx, address, f)
	})
}

// flashback returns every key to the backup ts. A region that says that it is not prepared is prepared
// again with the same timestamps: if it was done already, both calls change nothing.
func (r *Resolver) flashback(ctx context.Context, s *phase.Scope) error {
	return r.sweep(ctx, s, func(ctx context.Context, address string, f tikv.Flashback) error {
		err := r.tikv.Flashback(ctx, address, f)
		var region *tikv.RegionError
		if !errors.As(err, &region) || region.Kind != tikv.RegionNotPrepared {
			return err
		}
		if err := r.tikv.PrepareFlashback(ctx, address, f); err != nil {
			return err
		}
		return r.tikv.Flashback(ctx, address, f)
	})
}

// final reports whether an error of one call ends the sweep: only what no retry can mend.
func final(err error) bool {
	var region *tikv.RegionError
	if errors.As(err, &region) {
		return false
	}
	switch failure.KindOf(err) {
	case failure.Unknown, failure.Limited, failure.Conflict, failure.Unready, failure.NotFound:
		return false
	default:
		return true
	}
}
