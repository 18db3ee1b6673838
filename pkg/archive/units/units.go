package units

import (
	"context"
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// ID is a unit: a segment of the volume with this number in the plan.
type ID struct{ Volume, Segment int }

// String is the unit in keys.
func (id ID) String() string { return fmt.Sprintf("%d-%d", id.Volume, id.Segment) }

// State is what a listing shows of a unit.
type State struct {
	Done    bool
	Claimed objstore.Version // of the claim; "" without one
}

// Shared is the work at one archive that processes share. It is safe for concurrent use.
type Shared struct {
	repository *repository.Repository
	prefix     string
}

// Of returns the work at the archive with this id.
func Of(r *repository.Repository, archive string) *Shared {
	return &Shared{repository: r, prefix: format.UnitPrefix + archive + "/"}
}

const (
	planKey = "plan"
	claims  = "claims/"
	results = "results/"
)

// Publish writes the plan, unless there is one, and reads the one that counts into plan.
func (s *Shared) Publish(ctx context.Context, plan any) error {
	if err := s.create(ctx, planKey, plan); err != nil && !failure.Is(err, failure.Conflict) {
		return err
	}
	return s.Plan(ctx, plan)
}

// Plan reads the plan. Before Publish, and once the work is finished or given up, it is NotFound.
func (s *Shared) Plan(ctx context.Context, plan any) error {
	_, err := s.get(ctx, planKey, plan)
	return err
}

// List returns the units that are claimed or done, and whether there is a plan: without one the run has ended.
func (s *Shared) List(ctx context.Context) (out map[ID]State, open bool, err error) {
	objects, err := s.repository.Objects().List(ctx, s.prefix)
	if err != nil {
		return nil, false, failure.Annotate(err, "list units", s.prefix)
	}
	out = map[ID]State{}
	for _, o := range objects {
		open = open || o.Key == s.prefix+planKey
		var id ID
		kind, name, _ := strings.Cut(strings.TrimPrefix(o.Key, s.prefix), "/")
		if _, err := fmt.Sscanf(name, "%d-%d", &id.Volume, &id.Segment); err != nil || id.String() != name {
			continue // it is none
		}
		state := out[id]
		switch kind + "/" {
		case claims:
			state.Claimed = o.Version
		case results:
			state.Done = true
		}
		out[id] = state
	}
	return out, open, nil
}

// Claim claims a unit without a claim, and reports whether the claim is the caller's.
func (s *Shared) Claim(ctx context.Context, id ID, worker string) (bool, error) {
	err := s.create(ctx, claims+id.String(), worker)
	if failure.Is(err, failure.Conflict) {
		return false, nil
	}
	return err == nil, err
}

// Claimer returns whose a claim is, and its version.
func (s *Shared) Claimer(ctx context.Context, id ID) (worker string, version objstore.Version, err error) {
	version, err = s.get(ctx, claims+id.String(), &worker)
	return worker, version, err
}

// Reclaim replaces a claim, and reports whether it is the caller's then: another one may have been faster.
func (s *Shared) Reclaim(ctx context.Context, id ID, worker string, seen objstore.Version) (bool, error) {
	key := s.prefix + claims + id.String()
	object, err := s.repository.Keys().SealUnit(key, worker)
	if err != nil {
		return false, err
	}
	_, err = s.repository.Objects().Replace(ctx, key, object, seen)
	if failure.Is(err, failure.Conflict) {
		return false, nil
	}
	return err == nil, failure.Annotate(err, "reclaim unit", id.String())
}

// Finish writes a unit's result, unless there is one: all that it refers to is stored.
func (s *Shared) Finish(ctx context.Context, id ID, result any) error {
	err := s.create(ctx, results+id.String(), result)
	if failure.Is(err, failure.Conflict) {
		return nil
	}
	return err
}

// Result reads the result of a unit that is done.
func (s *Shared) Result(ctx context.Context, id ID, result any) error {
	_, err := s.get(ctx, results+id.String(), result)
	return err
}

// Record writes a further object of the work, of which there is none of its name. It must be the name of nothing above.
func (s *Shared) Record(ctx context.Context, name string, content any) error {
	return s.create(ctx, name, content)
}

// Records lists the names of recorded objects that begin so, sorted.
func (s *Shared) Records(ctx context.Context, beginning string) (names []string, err error) {
	objects, err := s.repository.Objects().List(ctx, s.prefix+beginning)
	for _, o := range objects {
		names = append(names, strings.TrimPrefix(o.Key, s.prefix))
	}
	return names, failure.Annotate(err, "list units", s.prefix)
}

// Recorded reads a recorded object.
func (s *Shared) Recorded(ctx context.Context, name string, content any) error {
	_, err := s.get(ctx, name, content)
	return err
}

func (s *Shared) create(ctx context.Context, name string, content any) error {
	object, err := s.repository.Keys().SealUnit(s.prefix+name, content)
	if err != nil {
		return err
	}
	_, err = s.repository.Objects().Create(ctx, s.prefix+name, object)
	return failure.Annotate(err, "write object", s.prefix+name)
}

func (s *Shared) get(ctx context.Context, name string, content any) (objstore.Version, error) {
	object, version, err := s.repository.Objects().Get(ctx, s.prefix+name)
	if err != nil {
		return "", failure.Annotate(err, "read object", s.prefix+name)
	}
	return version, s.repository.Keys().OpenUnit(s.prefix+name, object, content)
}

// deletes are at the same time.
const deletes = 16

// Remove deletes the plan, the claims and the results. What processes that are still at it write afterwards stays until
// the next Tidy.
func (s *Shared) Remove(ctx context.Context) error {
	return remove(ctx, s.repository.Objects(), s.prefix)
}

func remove(ctx context.Context, store objstore.Store, prefix string) error {
	objects, err := store.List(ctx, prefix)
	if err != nil {
		return failure.Annotate(err, "list units", prefix)
	}
	err = parallel.Each(ctx, deletes, objects, func(ctx context.Context, _ int, o objstore.Object) error {
		return store.Delete(ctx, o.Key)
	})
	return failure.Annotate(err, "delete units", prefix)
}

// Tidy deletes what is left of the work at archives that no lease is held for: they are committed, or never will be.
func Tidy(ctx context.Context, store objstore.Store) error {
	objects, err := store.List(ctx, format.UnitPrefix)
	if err != nil || len(objects) == 0 {
		return failure.Annotate(err, "list units", store.URL())
	}
	held, err := lease.All(ctx, store) // after the list: who shares an archive has its lease before
	if err != nil {
		return err
	}
	working := map[string]bool{}
	for i := range held {
		working[strings.TrimPrefix(held[i].Key, format.LeasePrefix)] = true
	}
	for _, o := range objects {
		archive, _, _ := strings.Cut(strings.TrimPrefix(o.Key, format.UnitPrefix), "/")
		if !working[archive] {
			if err := store.Delete(ctx, o.Key); err != nil {
				return failure.Annotate(err, "delete unit", o.Key)
			}
		}
	}
	return nil
}
