package resolve

import (
	"context"
	"sync/atomic"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// Fence reports whether another run has, or may have, the cluster, as runlock.Fence does.
type Fence interface {
	// Check returns a Conflict if so, and records the loss. It should normally be quick.
	Check(ctx context.Context) error
	// Lose records that another run was seen at work.
	Lose(reason error)
	// Loss returns the reason of a recorded loss; nil without one.
	Loss() error
	// Holder reads which run has the cluster.
	Holder(ctx context.Context) fenced.Holder
}

// noOtherRun is the fence of a cluster without a lock. It only records what the stores show.
type noOtherRun struct{ lost atomic.Pointer[error] }

func (n *noOtherRun) Check(context.Context) error { return nil }
func (n *noOtherRun) Lose(reason error)           { n.lost.CompareAndSwap(nil, &reason) }

func (n *noOtherRun) Loss() error {
	if reason := n.lost.Load(); reason != nil {
		return *reason
	}
	return nil
}

func (n *noOtherRun) Holder(context.Context) fenced.Holder { return fenced.HolderUnknown }
