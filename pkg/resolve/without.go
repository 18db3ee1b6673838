package resolve

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// Verdict is whether the cluster can be brought up without some of its stores.
type Verdict struct {
	// Known says that all other stores are read. Refused is nothing without it.
	Known bool
	// Refused is why a plan without the stores cannot be made; nil is that every region has a quorum.
	Refused error
}

// question is put to collect, to whose goroutine the metas belong.
type question struct {
	late   []cluster.StoreID
	answer chan Verdict
}

// Without says whether a plan without the stores can be made, while the step collect runs: from another step, beside it. It
// is not known before collect and after it, and when ctx ends.
func (r *Resolver) Without(ctx context.Context, late []cluster.StoreID) Verdict {
	if len(late) == 0 || !r.collecting.Load() {
		return Verdict{}
	}
	q := question{late: late, answer: make(chan Verdict, 1)}
	select {
	case r.asked <- q:
	case <-ctx.Done():
		return Verdict{}
	}
	select {
	case v := <-q.answer:
		return v
	case <-ctx.Done():
		return Verdict{}
	}
}

// without makes the plan. Streams of the late stores end first: they would change the keys while these are compared.
func (g *gathering) without(late []cluster.StoreID) Verdict {
	lost := append(slices.Clone(g.r.cfg.TolerateStores), late...)
	for _, rd := range g.readers {
		switch {
		case !slices.Contains(late, rd.store):
			if !rd.done {
				return Verdict{}
			}
		case rd.result != nil:
			rd.cancel()
			rd.err, rd.result = <-rd.result, nil
		}
	}
	_, err := plan.Make(g.metas.Without(late), plan.Rules{Replicas: g.r.cfg.Replicas, Lost: lost})
	return Verdict{Known: true, Refused: err}
}
