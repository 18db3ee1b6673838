package fenced

import (
	"context"
	"sync/atomic"
)

// Fence reports to a run whether another run has, or may have, what it works on. It is safe for concurrent use.
type Fence interface {
	// Check reads whether the lock is still this run's. It returns a Conflict if not, and records the loss. An answer
	// may be valid for seconds, so it is normally quick.
	Check(ctx context.Context) error
	// Confirm is Check that always reads.
	Confirm(ctx context.Context) error
	// Current makes no call: it returns a Conflict once the lock may be another run's, as far as that can be known.
	Current() error
	// Lose records that another run was seen at work.
	Lose(reason error)
	// Loss returns the reason of a recorded loss; nil without one. It makes no call.
	Loss() error
	// Holder reads who has the lock. It records no loss.
	Holder(ctx context.Context) Holder
}

// None is the fence of a run without a lock. It only records what the run sees elsewhere.
type None struct{ lost atomic.Pointer[error] }

var _ Fence = (*None)(nil)

// Check implements Fence.
func (*None) Check(context.Context) error { return nil }

// Confirm implements Fence.
func (*None) Confirm(context.Context) error { return nil }

// Current implements Fence.
func (*None) Current() error { return nil }

// Lose implements Fence.
func (n *None) Lose(reason error) { n.lost.CompareAndSwap(nil, &reason) }

// Loss implements Fence.
func (n *None) Loss() error {
	if reason := n.lost.Load(); reason != nil {
		return *reason
	}
	return nil
}

// Holder implements Fence.
func (*None) Holder(context.Context) Holder { return HolderUnknown }
