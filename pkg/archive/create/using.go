package create

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// using is the run's use of the repository beside others'. Steps are tried again, so each part is set once it is whole.
type using struct {
	lease *lease.Lease     // nil before the run has one, and after it has committed
	known *lease.Condemned // nil until it is read: see run.condemned
}

// takeLease takes the lease of a new archive. What the run reads of the repository afterwards stays.
func (r *run) takeLease(ctx context.Context) error {
	if r.using.lease == nil {
		if err := lease.OneWriter(ctx, r.Repository.Objects(), r.Repository.Settings(), r.choice.Archive); err != nil {
			return err
		}
		l, err := lease.Write(ctx, r.Repository.Objects(), r.choice.Archive, string(r.opts.Run))
		if err != nil {
			return err
		}
		r.using.lease = l
	}
	_, err := r.condemned(ctx)
	return err
}

// condemned is what the archive must not refer to. It is read once, under the lease, if there is one.
func (r *run) condemned(ctx context.Context) (*lease.Condemned, error) {
	if r.using.known == nil {
		known, err := lease.ReadCondemned(ctx, r.Repository.Objects())
		if err != nil {
			return nil, err
		}
		r.using.known = known
	}
	return r.using.known, nil
}

// resumeLease continues with the lease of the run's earlier processes. If it was broken, what they stored may be gone:
// then the run can only end, if it has committed.
func (r *run) resumeLease(ctx context.Context) error {
	if r.using.lease == nil {
		l, err := lease.Resume(ctx, r.Repository.Objects(), r.choice.Archive)
		if failure.Is(err, failure.Conflict) {
			if _, missing := r.Repository.Archive(ctx, r.choice.Archive); missing == nil {
				return nil
			}
		}
		if err != nil {
			return err
		}
		r.using.lease = l
	}
	return nil
}

// startOver returns that the archive of the run can no longer be committed, since its lease was broken: then another
// one is made, which refers to nothing that the first one stored. It is "" if the run can be resumed.
func (r *run) startOver(ctx context.Context, h *phase.History) (why string, err error) {
	if !h.Done(journal.StepChoose) {
		return "", nil
	}
	var was choice
	if err := h.Result(journal.StepChoose, &was); err != nil {
		return "", err
	}
	_, err = r.Repository.Archive(ctx, was.Archive)
	if !failure.Is(err, failure.NotFound) {
		return "", err
	}
	other := lease.Other{Record: lease.Record{Archive: was.Archive}}
	decided, err := other.Decided(ctx, r.Repository.Objects())
	if err == nil && !decided {
		_, err = lease.Resume(ctx, r.Repository.Objects(), was.Archive)
	}
	if decided || failure.Is(err, failure.Conflict) {
		return fmt.Sprintf("the lease of archive %s was broken, or it has been forgotten", was.Archive), nil
	}
	return "", err
}

// startAfresh forgets what the run's earlier processes did.
func (r *run) startAfresh() error {
	r.choice, r.earlier = choice{}, newEarlier()
	return nil
}

// keepLease renews the lease until stop is called. The context ends once it is found to be broken.
func (u *using) keepLease(ctx context.Context, renewEvery time.Duration) (kept context.Context, stop func()) {
	if u.lease == nil {
		return ctx, func() {}
	}
	return u.lease.Keep(ctx, renewEvery)
}
