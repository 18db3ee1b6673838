package phase

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tracing"
)

// errOtherFailed cancels the running steps when another one fails.
var errOtherFailed = errors.New("cancelled because another step of the run failed")

// plan is a run's steps, their order, and their state. One goroutine calls its methods; each step runs in its own
// goroutine, all of which have ended when run returns.
type plan struct {
	engine  *Engine
	steps   []Step
	after   [][]bool // whether a step comes after another, directly or transitively
	state   []stepState
	running int
	ended   chan stepEnd
	workers sync.WaitGroup
	failed  error
}

type stepState uint8

const (
	waiting stepState = iota
	underWay
	over // done, or failed
)

// stepEnd is how a step ended.
type stepEnd struct {
	index int
	err   error
}

// plan validates the steps and their order.
func (e *Engine) plan(steps []Step) (*plan, error) {
	if err := validate(steps); err != nil {
		return nil, err
	}
	p := &plan{engine: e, steps: steps, state: make([]stepState, len(steps)), ended: make(chan stepEnd, len(steps))}
	p.after = order(steps)
	if err := p.check(); err != nil {
		return nil, err
	}
	if e.cfg.Serial {
		for i := range p.after {
			for j := range i {
				p.after[i][j] = true
			}
		}
	}
	return p, nil
}

// order returns each step's predecessors.
func order(steps []Step) [][]bool {
	after, index := make([][]bool, len(steps)), map[string]int{}
	for i := range steps {
		after[i] = make([]bool, len(steps))
		for j := range i {
			after[i][j] = len(steps[i].Order.After) == 0
		}
		for _, name := range steps[i].Order.After {
			j := index[name]
			after[i][j] = true
			for k := range j {
				after[i][k] = after[i][k] || after[j][k]
			}
		}
		index[steps[i].Name] = i
	}
	return after
}

// check refuses an order that would let a step run too early.
func (p *plan) check() error {
	e := p.engine
	if first, last := e.group(p.steps); e.cfg.Group != nil && (first < 0 || last < first) {
		return failure.New(failure.Unknown, "plan run", e.cfg.Group.From, "no such steps to attempt again")
	}
	admit := -1
	if e.cfg.Resume != nil {
		admit = slices.IndexFunc(p.steps, func(s Step) bool { return s.Name == e.cfg.Resume.Admit })
	}
	for i := range p.steps {
		step := &p.steps[i]
		if e.cfg.Group != nil && len(step.Order.After) > 0 {
			return failure.New(failure.Unknown, "plan run", step.Name,
				"steps that may be attempted again run one after the other")
		}
		if admit >= 0 && i != admit && !p.after[max(i, admit)][min(i, admit)] {
			return failure.New(failure.Unknown, "plan run", step.Name,
				"it may run beside %q, which keeps other processes out", e.cfg.Resume.Admit)
		}
		for j := range i {
			if slices.Contains(step.Order.Ends, p.steps[j].Name) && !p.after[i][j] {
				return failure.New(failure.Unknown, "plan run", step.Name, "it ends %q and does not come after it",
					p.steps[j].Name)
			}
		}
	}
	return nil
}

// run executes the steps. The first error cancels the others, and is returned when all have ended.
func (p *plan) run(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for {
		if p.failed == nil {
			p.beginAll(ctx, inner)
		}
		if p.running == 0 {
			break
		}
		p.end(ctx, <-p.ended)
		if p.failed != nil {
			cancel(errOtherFailed)
		}
	}
	p.workers.Wait()
	p.engine.closePhases(p.failed)
	return p.failed
}

// beginAll begins every step that is ready, with inner, which another step's failure cancels, except for those that
// decide.
func (p *plan) beginAll(run, inner context.Context) {
	e := p.engine
	for i := range p.steps {
		if p.state[i] != waiting || !p.ready(i) {
			continue
		}
		ctx := inner
		if p.steps[i].Order.Decides {
			ctx = run
		}
		p.state[i] = underWay
		p.running++
		span := e.openPhase(ctx, &p.steps[i], e.attempt(p.steps, i))
		data, done := e.history.done[p.steps[i].Name]
		done = done && len(e.attempts) == 0
		p.workers.Go(func() { p.carryOut(ctx, i, span, done, data) })
	}
}

// ready reports whether all steps that the i-th comes after are done.
func (p *plan) ready(i int) bool {
	for j := range i {
		if p.after[i][j] && p.state[j] != over {
			return false
		}
	}
	return true
}

// carryOut executes a step, or adopts an earlier process's result.
func (p *plan) carryOut(ctx context.Context, i int, span tracing.Span, done bool, data json.RawMessage) {
	e, step := p.engine, &p.steps[i]
	var err error = failure.New(failure.Unknown, "run step", step.Name, "it exited its goroutine")
	defer func() { p.ended <- stepEnd{index: i, err: err} }()
	if done {
		err = e.skip(ctx, step, data)
		return
	}
	if err = e.do(ctx, step, span); err == nil {
		err = e.admitted(ctx, p.steps, step)
	}
}

// end records that a step ended. If it failed and is in the retry group, the group waits again.
func (p *plan) end(ctx context.Context, s stepEnd) {
	e := p.engine
	p.running--
	p.state[s.index] = over
	if s.err == nil && e.over {
		e.over = false
		clear(p.state) // all wait again, in the phase that is open
	}
	p.endPhase(s)
	switch {
	case s.err == nil:
		return
	case p.failed != nil:
		if !errors.Is(s.err, errOtherFailed) && !errors.Is(s.err, context.Canceled) &&
			!errors.Is(s.err, context.Cause(ctx)) {
			p.failed = errors.Join(p.failed, s.err)
		}
		return
	}
	next, err := e.nextAttempt(ctx, p.steps, s.index, s.err)
	if err != nil {
		p.failed = err
		return
	}
	for i := next; i <= s.index; i++ {
		p.state[i] = waiting
	}
}

// endPhase closes the ended step's phase: after its last step, or when a step of the run failed.
func (p *plan) endPhase(s stepEnd) {
	name, err := p.steps[s.index].Phase, s.err
	if err == nil {
		err = p.failed
	}
	for i := range p.steps {
		if p.steps[i].Phase == name && p.state[i] == underWay {
			return
		}
	}
	first, last := s.index, s.index // of the consecutive steps that are timed together
	for ; first > 0 && p.steps[first-1].Phase == name; first-- {
	}
	for ; last < len(p.steps)-1 && p.steps[last+1].Phase == name; last++ {
	}
	if err != nil || !slices.Contains(p.state[first:last+1], waiting) {
		p.engine.closePhase(name, err)
	}
}
