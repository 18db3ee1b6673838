package hold

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// Prove fails unless everything is held at this moment and was since it was paused. Call it after the cut's
// last response; Release then proves the leases by the stores' own word.
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

// Release ends all that is held, at the same time, and puts back what was there before. It may be called again and then
// releases what is left; a store's share that has run out meanwhile counts as released. It ends within seconds also if
// a store hangs. Of a hold that was found by Observe it releases nothing. broken says that the hold had not held: the
// set cut under it is worth nothing. err, of kind Held, says what could not be released and when it expires by itself.
func (h *Hold) Release(ctx context.Context) (broken, err error) {
	if h.seen != nil {
		h.seen.stop()
		return h.reason(), nil
	}
	defer h.parts.start("release")()
	defer h.stopGuard() // last: it watches over this call too
	h.stopKeeper()
	err = h.letGo(ctx)
	return h.reason(), err
}

// Disconnect closes the streams and ends all work of the hold. It releases nothing: that is Release's.
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

func (h *Hold) letGo(ctx context.Context) error {
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

// Proven reports whether every store said, when its lease was finished, that it had held all the time, and nothing else
// had broken the hold until then. What cannot be released afterwards, or takes too long, makes the cut no worse.
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

// held says what is left, until when, and how to end it.
func (h *Hold) held(err error) error {
	until := time.Now().Add(h.cfg.Lease)
	for _, s := range h.stores {
		until = later(until, s.expires())
	}
	return &failure.Error{
		Op: "release", Target: "cluster " + h.cfg.Cluster.String(), Kind: failure.Held,
		Hint: "run: " + h.cfg.Command + " (what is left expires by itself at " + until.UTC().Format(time.RFC3339) + ")",
		Err:  err,
	}
}
