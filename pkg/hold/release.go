package hold

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// Prove fails unless everything is held now and has been since it was paused. Call it after the cut's last response;
// Release then has the stores themselves prove the leases.
func (h *Hold) Prove(ctx context.Context) error {
	defer h.parts.start("prove")()
	if err := h.reason(); err != nil {
		return err
	}
	if h.seen != nil {
		return h.proveOther(ctx)
	}
	return h.proveOwn(ctx)
}

func (h *Hold) proveOwn(ctx context.Context) error {
	err := parallel.Each(ctx, 0, []func(context.Context) error{h.checkScheduling, h.checkGC},
		func(ctx context.Context, _ int, check func(context.Context) error) error { return check(ctx) })
	if err != nil {
		h.breakWith(err)
		return h.reason()
	}
	return nil
}

// Release ends the whole hold concurrently and restores the previous state. A second call releases what is left; a
// store's share that has since expired counts as released. It returns within seconds even if a store hangs. It releases
// nothing of a hold found by Observe. broken is why the hold broke: the set cut under it is worthless. err, of kind
// Held, lists what could not be released and when it expires.
func (h *Hold) Release(ctx context.Context) (broken, err error) {
	if h.seen != nil {
		h.seen.stop()
		return h.reason(), nil
	}
	defer h.parts.start("release")()
	defer h.stopGuard() // last: it watches over this call too
	h.stopKeeper()
	err = h.releaseHeld(ctx)
	return h.reason(), err
}

// Disconnect closes the streams and ends all work of the hold. It releases nothing: use Release for that.
func (h *Hold) Disconnect() {
	if h.seen != nil {
		h.seen.stop()
	}
	h.stopGuard()
	h.stopKeeper()
	for _, s := range h.stores {
		s.mu.Lock()
		lease := s.lease
		s.lease = nil
		s.mu.Unlock()
		if lease != nil {
			lease.Close()
		}
	}
}

func (h *Hold) releaseHeld(ctx context.Context) error {
	if h.seen != nil {
		return nil // it is another process's
	}
	h.asking.drain()
	h.leaveExpired(ctx)
	var broken error
	err := parallel.Each(ctx, 0, []func(context.Context) error{
		func(ctx context.Context) error {
			var err error
			broken, err = h.releaseStores(ctx)
			if broken == nil && err == nil {
				h.noteProven()
			}
			return err
		},
		h.releaseScheduling,
		h.releaseGC,
	}, func(ctx context.Context, _ int, release func(context.Context) error) error { return release(ctx) })
	if broken != nil {
		h.breakWith(broken)
	}
	if err != nil {
		return h.held(err)
	}
	h.mu.Lock()
	h.released = true
	h.mu.Unlock()
	return nil
}

// Proven reports whether every store confirmed, when its lease was ended, that it had held throughout, and nothing else
// had broken the hold by then. Releasing late or incompletely afterwards does not affect the cut.
func (h *Hold) Proven() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proven
}

func (h *Hold) noteProven() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proven = h.proven || h.broken == nil
}

func (h *Hold) releaseStores(ctx context.Context) (broken, err error) {
	reasons := make([]error, 2*len(h.stores))
	err = parallel.Each(ctx, 0, h.stores, func(ctx context.Context, i int, s *store) error {
		var finishErr, importErr error
		defer s.times.start("release")()
		var both sync.WaitGroup
		both.Go(func() {
			defer failure.Catch(&finishErr, "finish lease")
			ctx, cancel := context.WithTimeout(ctx, h.callLimit())
			defer cancel()
			reasons[2*i], finishErr = s.finish(ctx, h.tikv)
		})
		both.Go(func() {
			defer failure.Catch(&importErr, "resume imports")
			ctx, cancel := context.WithTimeout(ctx, h.callLimit())
			defer cancel()
			reasons[2*i+1], importErr = s.resumeImports(ctx, h.tikv, h.Service())
		})
		both.Wait()
		return errors.Join(finishErr, importErr)
	})
	return errors.Join(reasons...), err
}

// held returns the error that lists what is left, until when, and how to end it.
func (h *Hold) held(err error) error {
	until := time.Now().Add(h.cfg.Lease)
	for _, s := range h.stores {
		until = later(until, s.expires())
	}
	return &failure.Error{
		Op: "release", Target: "cluster " + h.cfg.Cluster.String(), Kind: failure.Held,
		Hint: "run: " + h.cfg.Command + " (leftovers expire on their own at " + until.UTC().Format(time.RFC3339) + ")",
		Err:  err,
	}
}
