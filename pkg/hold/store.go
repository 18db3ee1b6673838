package hold

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// store is one store's share of the hold.
type store struct {
	target Target

	mu        sync.Mutex // serialises the stream: renewals and WaitApply take turns
	lease     tikv.Lease
	leased    bool      // a Renew was sent
	validTill time.Time // when the lease runs out if it is not renewed
	imports   bool      // imports are suspended by us
}

func (s *store) name() string { return "store " + s.target.ID.String() + " (" + s.target.Address + ")" }

// connect opens the stream without pausing anything.
func (s *store) connect(ctx context.Context, t tikv.Holder) error {
	lease, err := t.OpenLease(ctx, s.target.Address)
	if err != nil {
		return failure.Annotate(err, "connect", s.name())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = lease
	return nil
}

// renew extends the lease. A lease that had run out since the last renewal is an error: the hold broke.
func (s *store) renew(ctx context.Context, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return failure.New(failure.Unknown, "renew lease", s.name(), "not connected")
	}
	again := s.leased
	s.leased = true
	sent := time.Now()
	valid, err := s.lease.Renew(ctx, ttl)
	if err != nil {
		return failure.Annotate(err, "renew lease", s.name())
	}
	s.validTill = sent.Add(ttl)
	if again && !valid {
		return failure.New(failure.Conflict, "renew lease", s.name(), "it had run out: the store restarted or was not reached in time")
	}
	return nil
}

func (s *store) waitApply(ctx context.Context, regions []cluster.Region) (map[cluster.RegionID]error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, err := s.lease.WaitApply(ctx, regions)
	return failed, failure.Annotate(err, "wait apply", s.name())
}

// suspendImports denies imports for ttl. On a renewal they must still have been denied.
func (s *store) suspendImports(ctx context.Context, t tikv.Holder, caller string, ttl time.Duration) error {
	s.mu.Lock()
	again := s.imports
	s.imports = true
	s.mu.Unlock()
	already, err := t.SuspendImport(ctx, s.target.Address, caller, ttl)
	if err != nil {
		return failure.Annotate(err, "suspend imports", s.name())
	}
	if again && !already {
		return failure.New(failure.Conflict, "suspend imports", s.name(), "imports were allowed for a while: the store restarted, or somebody resumed them")
	}
	return nil
}

// finish ends the lease and fails if it was not valid to the end. With no lease it only closes the stream.
func (s *store) finish(ctx context.Context) (broke, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return nil, nil
	}
	defer func() {
		s.lease.Close()
		s.lease = nil
	}()
	if !s.leased {
		return nil, nil
	}
	valid, err := s.lease.Finish(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "finish lease", s.name())
	}
	s.leased = false
	if !valid {
		return failure.New(failure.Conflict, "finish lease", s.name(), "the lease was not valid to the end"), nil
	}
	return nil, nil
}

func (s *store) resumeImports(ctx context.Context, t tikv.Holder, caller string) (broke, err error) {
	s.mu.Lock()
	held := s.imports
	s.mu.Unlock()
	if !held {
		return nil, nil
	}
	already, err := t.ResumeImport(ctx, s.target.Address, caller)
	if err != nil {
		return nil, failure.Annotate(err, "resume imports", s.name())
	}
	s.mu.Lock()
	s.imports = false
	s.mu.Unlock()
	if !already {
		return failure.New(failure.Conflict, "resume imports", s.name(), "imports were not denied any more"), nil
	}
	return nil, nil
}

// expires is when the store lets go by itself; zero if it holds nothing.
func (s *store) expires() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leased && !s.imports {
		return time.Time{}
	}
	return s.validTill
}
