package restore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// placement is the target's PD, nil until it is connected, and the stores in it.
type placement struct {
	PD
	open func(ctx context.Context, addresses []string) (PD, error)
	tikv TiKV
	name cluster.Name
}

func newPlacement(deps *Deps, target cluster.Name) placement {
	return placement{open: deps.OpenPD, tikv: deps.TiKV, name: target}
}

// connect connects to PD, unless that was done.
func (p *placement) connect(ctx context.Context, addresses []string) error {
	if p.PD != nil {
		return nil
	}
	opened, err := p.open(ctx, addresses)
	if err != nil {
		return err
	}
	p.PD = opened
	return nil
}

// mark marks PD as recovering, and reads that back.
func (p *placement) mark(ctx context.Context) error {
	target := p.name.String()
	if err := p.MarkRecovering(ctx); err != nil {
		return failure.Annotate(err, "mark recovering", target)
	}
	marked, err := p.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", target)
	}
	if !marked {
		return failure.New(failure.Unknown, "mark recovering", target, "PD took the mark and does not have it")
	}
	return nil
}

// raise raises PD's timestamps above this one.
func (p *placement) raise(ctx context.Context, ts cluster.TS) error {
	target := p.name.String()
	if err := p.RaiseTS(ctx, ts); err != nil {
		return failure.Annotate(err, "raise timestamp", target)
	}
	now, err := p.Now(ctx)
	if err != nil {
		return failure.Annotate(err, "take timestamp", target)
	}
	if now <= ts {
		return failure.New(failure.Unknown, "raise timestamp", target, "PD gives %s, which is not above %s", now, ts)
	}
	return nil
}

// unmark removes PD's mark, and reads that back.
func (p *placement) unmark(ctx context.Context) error {
	target := p.name.String()
	if err := p.UnmarkRecovering(ctx); err != nil {
		return failure.Annotate(err, "unmark recovering", target)
	}
	marked, err := p.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", target)
	}
	if marked {
		return failure.New(failure.Unknown, "unmark recovering", target, "PD removed the mark and still has it")
	}
	return nil
}

// checkStores refuses stores in the target's PD, except those of another part that was prepared before this one and
// whose stores have started, which they only do in recovery mode.
func (p *placement) checkStores(ctx context.Context, stores []pd.Store, elsewhere []cluster.StoreID) error {
	stores = slices.DeleteFunc(stores, func(st pd.Store) bool { return st.State == pd.StoreTombstone })
	if len(stores) == 0 {
		return nil
	}
	refused := failure.New(failure.Conflict, "check target", p.name.String(), "its PD knows %d stores already",
		len(stores)).
		WithHint("restore into a new cluster, made with spec.recoveryMode: true")
	for _, st := range stores {
		if !slices.Contains(elsewhere, st.ID) {
			return refused
		}
	}
	marked, err := p.Recovering(ctx)
	switch {
	case err != nil:
		return failure.Annotate(err, "read mark", p.name.String())
	case !marked:
		return refused
	}
	return nil
}

// upStores maps the TiKV stores that are up to their processes' start times, and to their addresses.
func (p *placement) upStores(
	ctx context.Context,
) (up map[cluster.StoreID]time.Time, at map[cluster.StoreID]string, err error) {
	stores, err := p.Stores(ctx)
	if err != nil {
		return nil, nil, failure.Annotate(err, "list stores", p.name.String())
	}
	up, at = map[cluster.StoreID]time.Time{}, map[cluster.StoreID]string{}
	var others []pd.Store
	for _, st := range stores {
		switch {
		case !st.IsTiKV() || st.State == pd.StoreOffline || st.State == pd.StoreTombstone:
		case st.State == pd.StoreUp:
			up[st.ID], at[st.ID] = st.StartedAt, st.Address
		default:
			others = append(others, st)
		}
	}
	for i, answers := range p.answering(ctx, others) {
		if answers {
			up[others[i].ID], at[others[i].ID] = others[i].StartedAt, others[i].Address
		}
	}
	return up, at, nil
}

// answerTime is how long to ask a store that is not up in PD whether it serves.
const answerTime = 2 * time.Second

// answering returns the stores that serve in recovery mode, by their own answers.
func (p *placement) answering(ctx context.Context, stores []pd.Store) []bool {
	up := make([]bool, len(stores))
	_ = parallel.Each(ctx, 0, stores, func(ctx context.Context, i int, st pd.Store) error {
		asking, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		normal, err := p.normalMode(asking, st.Address)
		up[i] = err == nil && !normal
		return nil // one that does not answer is retried
	})
	return up
}

// normalMode reports whether a store lacks the service that only recovery mode has.
func (p *placement) normalMode(ctx context.Context, address string) (bool, error) {
	recovering := errors.New("in recovery mode")
	err := p.tikv.RegionMetas(ctx, address, func(tikv.RegionMeta) error { return recovering })
	switch {
	case failure.Is(err, failure.Unready):
		return true, nil
	case err == nil, errors.Is(err, recovering):
		return false, nil
	}
	return false, err
}

// ledByStores returns the number of regions led by the stores, by their own answers.
func (p *placement) ledByStores(ctx context.Context, of []cluster.StoreID) (int, error) {
	stores, err := p.Stores(ctx)
	if err != nil {
		return 0, failure.Annotate(err, "list stores", p.name.String())
	}
	sum := 0
	for _, st := range stores {
		if !slices.Contains(of, st.ID) {
			continue
		}
		led, _, err := p.tikv.LedRegions(ctx, st.Address)
		if err != nil {
			return 0, failure.Annotate(err, "count leaders", "store "+st.ID.String())
		}
		sum += len(led)
	}
	return sum, nil
}

// putState retries transient errors for stateTime.
func (p *placement) putState(ctx context.Context, state cluster.PDState) (left []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	err = wait.Until(ctx, wait.Every(pollInterval), func() (bool, error) {
		left, err = p.PutState(ctx, state)
		return !failure.Transient(err), err
	})
	return left, wait.Reason(err)
}
