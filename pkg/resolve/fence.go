package resolve

import (
	"context"
	"sync/atomic"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// Fence says whether another run has, or may have, the cluster. runlock.Fence is one.
type Fence interface {
	// Check is a Conflict if so, and notes that. It has to be quick as a rule.
	Check(ctx context.Context) error
	// Lose notes that another run was seen at work.
	Lose(reason error)
	// Loss is the reason of a loss that was noted; nil is none.
	Loss() error
	// Holder reads who has the cluster.
	Holder(ctx context.Context) fenced.Holder
}

// noOtherRun is the fence of a cluster without a lock. Only what the stores show is noted.
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
