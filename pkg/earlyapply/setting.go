package earlyapply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Store is a store and where it is reached.
type Store struct {
	ID            cluster.StoreID
	Address       string
	StatusAddress string
	StartedAt     time.Time // of its process; zero if PD does not say
}

// Setting is what a store was set to before a run turned it off.
type Setting struct {
	Store cluster.StoreID `json:"store"`
	Limit uint64          `json:"limit"`
}

// Add is the list with those of more whose stores it does not name yet, by the stores' ids.
func Add(list, more []Setting) []Setting {
	for _, s := range more {
		if !Names(list, s.Store) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Setting) int { return cmp.Compare(a.Store, b.Store) })
	return list
}

// Names reports whether the store is one of the list.
func Names(list []Setting, id cluster.StoreID) bool {
	return slices.ContainsFunc(list, func(s Setting) bool { return s.Store == id })
}

// Failures are the stores that could not be read or set, and why.
type Failures map[cluster.StoreID]error

// Stores lists them in order.
func (f Failures) Stores() []cluster.StoreID {
	ids := make([]cluster.StoreID, 0, len(f))
	for id := range f {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Survey is what the stores' settings are.
type Survey struct {
	// On are the stores whose leaders may apply early.
	On []Setting
	// Off are those that have the setting, at 0.
	Off []cluster.StoreID
	// Absent are those that do not have it.
	Absent []cluster.StoreID
	Failed Failures
}

// NotApplicable reports whether every store has said that it does not know early apply.
func (s *Survey) NotApplicable() bool {
	return len(s.On)+len(s.Off)+len(s.Failed) == 0 && len(s.Absent) > 0
}

// How long a store that does not answer is tried, and how often.
const (
	patience = 5 * time.Second
	interval = 200 * time.Millisecond
)

// Read reads every store's setting. It goes by the store's own word and not by its version. Nothing is changed.
func Read(ctx context.Context, t tikv.EarlyApplier, stores []Store) *Survey {
	out := &Survey{Failed: Failures{}}
	var mu sync.Mutex
	_ = parallel.Each(ctx, 0, stores, func(ctx context.Context, _ int, s Store) error {
		got, err := read(ctx, t, s)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			out.Failed[s.ID] = err
		case !got.Known:
			out.Absent = append(out.Absent, s.ID)
		case got.Limit == 0:
			out.Off = append(out.Off, s.ID)
		default:
			out.On = append(out.On, Setting{s.ID, got.Limit})
		}
		return nil
	})
	for _, s := range stores { // those that the end of ctx, or a panic, has left out
		if !out.has(s.ID) {
			out.Failed[s.ID] = failure.New(failure.Unready, "read early apply", name(s.ID), "it was not asked: %v",
				context.Cause(ctx))
		}
	}
	slices.SortFunc(out.On, func(a, b Setting) int { return cmp.Compare(a.Store, b.Store) })
	slices.Sort(out.Off)
	slices.Sort(out.Absent)
	return out
}

func (s *Survey) has(id cluster.StoreID) bool {
	_, failed := s.Failed[id]
	return failed || slices.Contains(s.Off, id) || slices.Contains(s.Absent, id) || Names(s.On, id)
}

// read tries for a while: a status port that is busy is no reason for a backup that proves less.
func read(ctx context.Context, t tikv.EarlyApplier, s Store) (tikv.EarlyApply, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		got, err := t.EarlyApply(limited, s.StatusAddress)
		if err == nil || !failure.Transient(err) || wait.For(limited, interval) != nil {
			return got, failure.Annotate(err, "read early apply", name(s.ID))
		}
	}
}

// answerTime is how long a store that was asked to change its setting is waited for after ctx has ended: it may carry
// out a request that nobody waits for, and do so after the setting was put back.
const answerTime = 2 * time.Second

// TurnOff sets the limit of these stores to 0, and takes none for off that does not say so itself afterwards. The old
// settings have to be journalled before.
func TurnOff(ctx context.Context, t tikv.EarlyApplier, stores []Store, on []Setting) Failures {
	failed := Failures{}
	var mu sync.Mutex
	ctx, release := wait.Outlive(ctx, answerTime)
	defer release()
	_ = parallel.Each(ctx, 0, on, func(ctx context.Context, _ int, old Setting) error {
		err := set(ctx, t, find(stores, old.Store), 0)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed[old.Store] = err
		}
		return nil
	})
	return failed
}

// set sets the limit, and judges by what the store says then: an answer that is lost says nothing.
func set(ctx context.Context, t tikv.EarlyApplier, s Store, limit uint64) error {
	setErr := t.SetEarlyApply(ctx, s.StatusAddress, limit)
	got, err := read(ctx, t, s)
	switch {
	case err != nil:
		return errors.Join(failure.Annotate(setErr, "set early apply", name(s.ID)), err)
	case got.Known && got.Limit == limit:
		return nil
	case setErr != nil:
		return failure.Annotate(setErr, "set early apply", name(s.ID))
	}
	return failure.New(failure.Conflict, "set early apply", name(s.ID), "the limit is %d and not %d", got.Limit, limit)
}

// PutBack sets the stores to what they were, those that are at 0. One that is not has been restarted, which brings the
// configured value back, or was set by somebody else; one that is not listed is gone. It returns the stores that it
// set. It may be called again. What is turned on again comes into force in a leader only when the region's leader
// changes.
func PutBack(
	ctx context.Context, t tikv.EarlyApplier, stores []Store, old []Setting,
) (done []cluster.StoreID, err error) {
	var mu sync.Mutex
	err = parallel.Each(ctx, 0, old, func(ctx context.Context, _ int, was Setting) error {
		s := find(stores, was.Store)
		if s.ID == 0 || was.Limit == 0 {
			return nil
		}
		got, err := read(ctx, t, s)
		if err != nil || !got.Known || got.Limit != 0 {
			return err
		}
		if err := set(ctx, t, s, was.Limit); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done = append(done, s.ID)
		return nil
	})
	slices.Sort(done)
	return done, err
}

func find(stores []Store, id cluster.StoreID) Store {
	if i := slices.IndexFunc(stores, func(s Store) bool { return s.ID == id }); i >= 0 {
		return stores[i]
	}
	return Store{}
}

func name(id cluster.StoreID) string { return "store " + id.String() }
