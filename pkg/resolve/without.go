package resolve

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// Verdict is whether the cluster can be brought up without some stores.
type Verdict struct {
	// Known means that all other stores were read and a plan was tried. Otherwise Refused has no meaning.
	Known bool
	// Refused is why there is no plan without the stores; nil means that every region has a quorum.
	Refused error
}

// questions lets other steps ask a running gathering, whose goroutine owns the metas.
type questions struct {
	asked     chan question
	gathering atomic.Bool // the one that answers
}

type question struct {
	late   []cluster.StoreID
	answer chan Verdict
}

// ask returns the running gathering's answer; unknown without one, or if ctx ends.
func (q *questions) ask(ctx context.Context, late []cluster.StoreID) Verdict {
	if len(late) == 0 || !q.gathering.Load() {
		return Verdict{}
	}
	one := question{late: late, answer: make(chan Verdict, 1)}
	select {
	case q.asked <- one:
	case <-ctx.Done():
		return Verdict{}
	}
	select {
	case v := <-one.answer:
		return v
	case <-ctx.Done():
		return Verdict{}
	}
}

// without makes the plan. The late stores' streams end first: they would change the keys while these are compared.
func (g *gathering) without(ctx context.Context, late []cluster.StoreID) Verdict {
	lost := append(slices.Clone(g.cfg.TolerateStores), late...)
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
	_, err := plan.Make(ctx, g.metas.Without(late), plan.Rules{Replicas: g.cfg.Replicas, Lost: lost})
	return Verdict{Known: ctx.Err() == nil, Refused: err}
}
