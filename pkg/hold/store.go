package hold

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// store is one store's share of the hold. Its lease takes renewals while WaitApply is under way.
type store struct {
	target Target
	times  timings
	fenced func() error // asked right before each call that pauses something

	mu        sync.Mutex // guards the fields; never held over a call
	lease     tikv.Lease
	leased    bool // a Renew was sent
	imports   bool // a suspension of imports was sent
	answered  struct{ lease, imports bool }
	validTill time.Time // until when either runs at most, if it is not renewed
	// lapsed is why it cannot be proven that the store was held all the time: a renewal took it again, or may have, and
	// what the store says at the end is of that one alone.
	lapsed error
}

func (s *store) name() string { return "store " + s.target.ID.String() + " (" + s.target.Address + ")" }

// connect opens the stream without pausing anything.
func (s *store) connect(ctx context.Context, t tikv.Holder) error {
	if err := s.fenced(); err != nil { // a new stream ends another run's
		return err
	}
	lease, err := t.OpenLease(ctx, s.target.Address)
	if err != nil {
		return failure.Annotate(err, "connect", s.name())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = lease
	return nil
}

// renew extends the lease. One that had run out since the last renewal is an error: the hold broke. One that
// ran before the first renewal is somebody else's, and stays theirs.
func (s *store) renew(ctx context.Context, ttl time.Duration) error {
	if err := s.fenced(); err != nil {
		return err
	}
	s.mu.Lock()
	lease, again := s.lease, s.answered.lease
	if lease != nil { // also a call whose answer is lost may have extended it
		s.leased, s.validTill = true, later(s.validTill, time.Now().Add(ttl))
	}
	s.mu.Unlock()
	if lease == nil {
		return failure.New(failure.Unknown, "renew lease", s.name(), "not connected")
	}
	valid, err := lease.Renew(ctx, ttl)
	switch {
	case err != nil:
		return s.lapse(again, failure.Annotate(err, "renew lease", s.name()))
	case again && !valid:
		return s.lapse(again,
			failure.New(failure.Conflict, "renew lease", s.name(),
				"it had run out: the store restarted or was not reached in time"))
	case !again && valid:
		s.note(func() { s.leased = false })
		return failure.New(failure.Conflict, "take lease", s.name(),
			"the store is held by somebody else: another backup runs, or died a moment ago").
			WithHint("wait until the other backup has ended; if it is dead, its leases expire by themselves, at the "+
				"latest %s from now", ttl)
	}
	s.note(func() { s.answered.lease = true })
	return nil
}

// lapse notes the error of a renewal, if it was one.
func (s *store) lapse(again bool, err error) error {
	s.note(func() {
		if again && s.lapsed == nil {
			s.lapsed = err
		}
	})
	return err
}

func (s *store) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *store) waitApply(ctx context.Context, regions []cluster.Region) (map[cluster.RegionID]error, error) {
	s.mu.Lock()
	lease := s.lease
	s.mu.Unlock()
	if lease == nil {
		return nil, failure.New(failure.Unknown, "wait apply", s.name(), "not connected")
	}
	failed, err := lease.WaitApply(ctx, regions)
	return failed, failure.Annotate(err, "wait apply", s.name())
}

// suspendImports denies imports for ttl. On a renewal they must still have been denied; at first they must
// not, as resuming ours would then resume somebody else's.
func (s *store) suspendImports(ctx context.Context, t tikv.Holder, caller string, ttl time.Duration) error {
	if err := s.fenced(); err != nil {
		return err
	}
	s.mu.Lock()
	again := s.answered.imports
	s.imports, s.validTill = true, later(s.validTill, time.Now().Add(ttl))
	s.mu.Unlock()
	already, err := t.SuspendImport(ctx, s.target.Address, caller, ttl)
	switch {
	case err != nil:
		return s.lapse(again, failure.Annotate(err, "suspend imports", s.name()))
	case again && !already:
		return s.lapse(again,
			failure.New(failure.Conflict, "suspend imports", s.name(),
				"imports were allowed for a while: the store restarted, or somebody resumed them"))
	case !again && already:
		s.note(func() { s.imports = false })
		return failure.New(failure.Conflict, "suspend imports", s.name(),
			"somebody else suspends them: another backup runs, or died a moment ago").
			WithHint("wait until the other backup has ended; if it is dead, its suspension expires by itself, at the "+
				"latest %s from now", ttl)
	}
	s.note(func() { s.answered.imports = true })
	return nil
}

// finish ends the lease. broken says that it was not valid to the end, or that this cannot be proven because
// the stream was lost; the lease is then ended by a new stream.
func (s *store) finish(ctx context.Context, t tikv.Holder) (broken, err error) {
	s.mu.Lock()
	lease, leased := s.lease, s.leased
	s.lease = nil
	s.mu.Unlock()
	if lease != nil {
		defer lease.Close()
	}
	if !leased {
		return nil, nil
	}
	valid := false
	if lease != nil {
		valid, broken = lease.Finish(ctx)
	}
	switch {
	case failure.Is(broken, failure.Conflict): // the lease is lost to another client
	case broken != nil || lease == nil:
		if err := s.finishByNewStream(ctx, t); err != nil && !s.expired() {
			return failure.Annotate(broken, "finish lease", s.name()), failure.Annotate(err, "finish lease", s.name())
		}
	case !valid:
		broken = failure.New(failure.Conflict, "", "", "the lease was not valid to the end")
	}
	s.note(func() {
		s.leased, s.answered.lease = false, false
		if broken == nil {
			broken = s.lapsed
		}
	})
	return failure.Annotate(broken, "finish lease", s.name()), nil
}

// maxFinishTries is how often finishByNewStream opens a stream at most.
const maxFinishTries = 3

// finishByNewStream ends the lease by a stream of its own: a lease outlives the stream that took it. If that is ended
// by another one, it is most likely one of ours that was cancelled while it was opened and reached the store late: it
// is tried again.
func (s *store) finishByNewStream(ctx context.Context, t tikv.Holder) error {
	for try := 1; ; try++ {
		err := s.finishOnce(ctx, t)
		if !failure.Is(err, failure.Conflict) || try == maxFinishTries || wait.For(ctx, settleInterval) != nil {
			return err
		}
	}
}

func (s *store) finishOnce(ctx context.Context, t tikv.Holder) error {
	if s.fenced() != nil && s.expired() {
		return nil // a new stream would end another run's
	}
	lease, err := t.OpenLease(ctx, s.target.Address)
	if err != nil {
		return err
	}
	defer lease.Close()
	_, err = lease.Finish(ctx)
	return err
}

func (s *store) resumeImports(ctx context.Context, t tikv.Holder, caller string) (broken, err error) {
	s.mu.Lock()
	held := s.imports
	s.mu.Unlock()
	if !held || s.fenced() != nil && s.expired() {
		return nil, nil
	}
	already, err := t.ResumeImport(ctx, s.target.Address, caller)
	if err != nil && s.expired() {
		already, err = false, nil
	}
	if err != nil {
		return nil, failure.Annotate(err, "resume imports", s.name())
	}
	suspended := false
	s.note(func() { suspended, s.imports, s.answered.imports = s.answered.imports, false, false })
	if suspended && !already {
		return failure.New(failure.Conflict, "resume imports", s.name(), "imports were not denied any more"), nil
	}
	return nil, nil
}

// expires is when the store ends its share by itself at the latest; zero if it holds nothing.
func (s *store) expires() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leased && !s.imports {
		return time.Time{}
	}
	return s.validTill
}

// expiryMargin allows for the clocks of the store and of this process to go at different speeds.
const expiryMargin = time.Second

// expired reports whether all that the store held has run out by itself: neither a lease nor a suspension of
// imports outlives its time, and a restarted store has none.
func (s *store) expired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().After(s.validTill.Add(expiryMargin))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
