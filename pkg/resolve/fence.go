package resolve

import (
	"context"
	"sync/atomic"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Fence says whether another run has, or may have, the cluster. runlock.Fence is one.
type Fence interface {
	// Check is a Conflict if so, and notes that. It has to be quick as a rule.
	Check(ctx context.Context) error
	// Lose notes that another run was seen at work.
	Lose(reason error)
	// Lost reports whether a loss was noted.
	Lost() bool
	// Reclaim reports whether the other run has ended, so that what this one has set in PD is its own to end again.
	Reclaim(ctx context.Context) bool
	// Continued reports whether another process of this same run has the cluster, or has had it since: what the run has
	// set in PD is that one's.
	Continued(ctx context.Context) bool
}

// taken is a Conflict if another run has the cluster by now: a process that was suspended may not have noticed it yet.
func (r *Resolver) taken(ctx context.Context) error {
	err := r.cfg.Fence.Check(ctx)
	switch {
	case !r.cfg.Fence.Lost():
		return nil // what cannot be asked now keeps nothing frozen
	case err == nil:
		return failure.New(failure.Conflict, "check lock", r.cfg.Cluster.String(), "another run was seen at work")
	}
	return err
}

// noOtherRun is the fence of a cluster without a lock. Only what the stores show is noted.
type noOtherRun struct{ lost atomic.Bool }

func (n *noOtherRun) Check(context.Context) error    { return nil }
func (n *noOtherRun) Lose(error)                     { n.lost.Store(true) }
func (n *noOtherRun) Lost() bool                     { return n.lost.Load() }
func (n *noOtherRun) Reclaim(context.Context) bool   { return false }
func (n *noOtherRun) Continued(context.Context) bool { return false }
