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

// store is one store's share of the hold. Its lease can be renewed while WaitApply is in progress.
type store struct {
	target Target
	times  timings
	fenced func() error // asked right before each call that pauses something

	mu        sync.Mutex // guards the fields; never held over a call
	lease     tikv.Lease
	leased    bool // a Renew was sent
	imports   bool // a suspension of imports was sent
	answered  struct{ lease, imports bool }
	validTill time.Time // when either expires at the latest, unless renewed
	// lapsed is why the store cannot be proven to have been held throughout: a renewal acquired it again, or may have,
	// and the store's final answer covers only that lease.
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

// renew extends the lease. If it had expired since the last renewal, the hold broke: an error. A lease that existed
// before the first renewal is someone else's and stays theirs.
func (s *store) renew(ctx context.Context, ttl time.Duration) error {
	if err := s.fenced(); err != nil {
		return err
	}
	s.mu.Lock()
	lease, again := s.lease, s.answered.lease
	if lease != nil { // even a call whose answer is lost may have extended it
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
				"it had expired: the store restarted or was not reached in time"))
	case !again && valid:
		s.note(func() { s.leased = false })
		return failure.New(failure.Conflict, "take lease", s.name(),
			"the store is held by another client: another backup is running, or died a moment ago").
			WithHint("wait until the other backup has ended; if it is dead, its leases expire within %s", ttl)
	}
	s.note(func() { s.answered.lease = true })
	return nil
}

// lapse records err if it came from a renewal.
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

// suspendImports denies imports for ttl. On a renewal they must still be denied; on the first call they must not be,
// because resuming ours would resume the other client's.
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
				"imports were allowed for a while: the store restarted, or another client resumed them"))
	case !again && already:
		s.note(func() { s.imports = false })
		return failure.New(failure.Conflict, "suspend imports", s.name(),
			"another client suspends them: another backup is running, or died a moment ago").
			WithHint("wait until the other backup has ended; if it is dead, its suspension expires within %s", ttl)
	}
	s.note(func() { s.answered.imports = true })
	return nil
}

// finish ends the lease. broken means that it was not valid to the end, or that this cannot be proven because the
// stream was lost; a new stream then ends the lease.
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

// maxFinishTries bounds how many streams finishByNewStream opens.
const maxFinishTries = 3

// finishByNewStream ends the lease on a new stream: a lease outlives the stream that took it. If another stream ends
// this one, that is most likely one of ours, cancelled while opening, that reached the store late: it retries.
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
		return failure.New(failure.Conflict, "resume imports", s.name(), "imports were no longer denied"), nil
	}
	return nil, nil
}

// expires returns when the store's share expires at the latest; zero if it holds nothing.
func (s *store) expires() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leased && !s.imports {
		return time.Time{}
	}
	return s.validTill
}

// expiryMargin allows for clock drift between the store and this process.
const expiryMargin = time.Second

// expired reports whether everything that the store held has expired: neither a lease nor an import suspension outlives
// its time, and a restarted store has none.
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
