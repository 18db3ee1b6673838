package create

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/failure"
)

// using is the run's use of the repository beside others'. Steps are tried again, so each part is set once it is whole.
type using struct {
	lease     *lease.Lease     // nil before the run has one, and after it has committed
	condemned *lease.Condemned // that the archive must not refer to; nil until it is read
}

// takeLease takes the lease of a new archive. What the run reads of the repository afterwards stays.
func (r *run) takeLease(ctx context.Context) error {
	if r.using.lease == nil {
		if err := r.checkWriters(ctx); err != nil {
			return err
		}
		l, err := lease.Write(ctx, r.Repository.Objects(), r.choice.Archive, string(r.opts.Run))
		if err != nil {
			return err
		}
		r.using.lease = l
	}
	return r.readCondemned(ctx)
}

// readCondemned reads what the archive must not refer to, under the lease.
func (r *run) readCondemned(ctx context.Context) error {
	if r.using.condemned != nil {
		return nil
	}
	condemned, err := lease.ReadCondemned(ctx, r.Repository.Objects())
	if err != nil {
		return err
	}
	r.using.condemned = condemned
	return nil
}

// checkWriters refuses a second writer where the storage allows only one.
func (r *run) checkWriters(ctx context.Context) error {
	if r.Repository.Settings().Storage.ManyWriters() {
		return nil
	}
	others, err := lease.All(ctx, r.Repository.Objects())
	if err != nil {
		return err
	}
	for i := range others {
		if others[i].Archive != "" {
			return failure.New(failure.Conflict, "create archive", r.choice.Archive,
				"archive %s is being made, and the repository's storage allows one writer at a time: it ignores "+
					"conditional writes", others[i].Archive).
				WithHint("finish that run by its command; if it is given up, delete %s", others[i].Key)
		}
	}
	return nil
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
	return r.readCondemned(ctx)
}

// keepLease renews the lease until stop is called. The context ends once it is found to be broken.
func (u *using) keepLease(ctx context.Context) (kept context.Context, stop func()) {
	if u.lease == nil {
		return ctx, func() {}
	}
	return u.lease.Keep(ctx)
}
