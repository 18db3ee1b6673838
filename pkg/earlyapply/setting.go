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

// Store is a store and its addresses.
type Store struct {
	ID            cluster.StoreID
	Address       string
	StatusAddress string
	StartedAt     time.Time // of its process; zero if PD does not know it
}

// Setting is a store's setting before a run turned early apply off.
type Setting struct {
	Store cluster.StoreID `json:"store"`
	Limit uint64          `json:"limit"`
}

// Add returns the list with those of more whose stores are not in it, sorted by store.
func Add(list, more []Setting) []Setting {
	for _, s := range more {
		if !Names(list, s.Store) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Setting) int { return cmp.Compare(a.Store, b.Store) })
	return list
}

// Names reports whether the store is in the list.
func Names(list []Setting, id cluster.StoreID) bool {
	return slices.ContainsFunc(list, func(s Setting) bool { return s.Store == id })
}

// Failures maps the stores that could not be read or set to the reasons.
type Failures map[cluster.StoreID]error

// Stores lists the stores in order.
func (f Failures) Stores() []cluster.StoreID {
	ids := make([]cluster.StoreID, 0, len(f))
	for id := range f {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Survey is the stores' settings.
type Survey struct {
	// On are the stores whose leaders may apply early.
	On []Setting
	// Off are those with the setting at 0.
	Off []cluster.StoreID
	// Absent are those without the setting.
	Absent []cluster.StoreID
	Failed Failures
}

// NotApplicable reports whether no store knows early apply, by their own answers.
func (s *Survey) NotApplicable() bool {
	return len(s.On)+len(s.Off)+len(s.Failed) == 0 && len(s.Absent) > 0
}

// How long, and how often, a store that does not answer is retried.
const (
	patience = 5 * time.Second
	interval = 200 * time.Millisecond
)

// Read reads every store's setting, by asking it rather than by its version. It changes nothing.
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
	for _, s := range stores { // those skipped because ctx ended, or of a panic
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

// read retries for a while: a busy status port is no reason for a backup with a weaker proof.
func read(ctx context.Context, t tikv.EarlyApplier, s Store) (got tikv.EarlyApply, err error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = wait.Until(limited, wait.Every(interval), func() (bool, error) { // err is the last try's
		got, err = t.EarlyApply(limited, s.StatusAddress)
		return !failure.Transient(err), err
	})
	return got, failure.Annotate(err, "read early apply", name(s.ID))
}

// answerTime is how long to wait, after ctx ends, for a store that was asked to change its setting: otherwise it might
// execute the request after the setting was restored.
const answerTime = 2 * time.Second

// TurnOff sets the limit of these stores to 0. A store counts as off only if it reports so afterwards. The old settings
// must be journalled before.
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

// set sets the limit, and reads it back to find out whether it worked: the answer may be lost.
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
	return failure.New(failure.Conflict, "set early apply", name(s.ID), "the limit is %d, not %d", got.Limit, limit)
}

// PutBack restores the settings of the stores that are at 0, and returns these stores. Any other store was restarted,
// which restores the configured value, or was set by someone else; a store not listed is gone. It may be repeated. A
// leader only adopts a limit that is on again when the region's leader changes.
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
