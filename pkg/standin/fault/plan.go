// Package fault injects faults by name into the stand-ins.
//
// A stand-in asks the plan at named points ("ec2.CreateSnapshots", "pd.PauseScheduler", "tikv.1.RecoverRegion");
// a rule matches a point by path.Match pattern, a call number and a position. Rules that were never reached
// are listed, so that a test fails if its fault did not happen.
package fault

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"
)

// Position is where in a call a fault strikes.
type Position int

// The positions.
const (
	Before Position = iota // refused: nothing happened
	After                  // done, but the answer is lost
	Stall                  // no answer until the caller gives up; nothing happened
	Slow                   // answered after Delay
)

// String is the name used in rules on the command line.
func (p Position) String() string { return [...]string{"before", "after", "stall", "slow"}[p] }

// Rule is one fault.
type Rule struct {
	Point    string // path.Match pattern over the point's name
	Position Position
	Nth      int // strike from this matching call on, counted from 1; 0 is 1
	Times    int // strike so often; 0 is once, -1 is for ever
	Code     string
	Delay    time.Duration
	// Do runs when the rule strikes, before the outcome is decided: kill a store, restart PD, …
	Do func()
}

// Strike is what a stand-in has to do at a point.
type Strike struct {
	Position Position
	Code     string // error code in the other side's words, "" for the stand-in's default
	Delay    time.Duration
}

type rule struct {
	Rule
	calls, struck int
}

// Plan holds rules. The zero value and nil are plans without faults. It is safe for concurrent use.
type Plan struct {
	mu      sync.Mutex
	rules   []*rule
	calls   map[string]int
	watcher func(point string) *Rule
}

// Watch lets f see every point that is asked, in the order of the calls; what it returns strikes there, if no rule
// does. It must not call the plan. nil ends it.
func (p *Plan) Watch(f func(point string) *Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watcher = f
}

// Add puts a rule into force from now on.
func (p *Plan) Add(r Rule) error {
	if _, err := path.Match(r.Point, ""); err != nil {
		return fmt.Errorf("fault point %q: %w", r.Point, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &rule{Rule: r})
	return nil
}

// Clear removes all rules.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// At counts a call at the point and returns the fault that strikes it, or nil.
func (p *Plan) At(point string) *Strike {
	if p == nil {
		return nil
	}
	s, do := p.match(point)
	if do != nil {
		do()
	}
	return s
}

func (p *Plan) match(point string) (*Strike, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[string]int{}
	}
	p.calls[point]++
	var watched *Rule
	if p.watcher != nil {
		watched = p.watcher(point)
	}
	for _, r := range p.rules {
		if ok, _ := path.Match(r.Point, point); !ok {
			continue
		}
		r.calls++
		if r.calls < max(r.Nth, 1) || (r.Times >= 0 && r.struck >= max(r.Times, 1)) {
			continue
		}
		r.struck++
		return r.strike(), r.Do
	}
	if watched != nil {
		return watched.strike(), watched.Do
	}
	return nil, nil
}

func (r *Rule) strike() *Strike { return &Strike{Position: r.Position, Code: r.Code, Delay: r.Delay} }

// Calls is how often the point was asked so far.
func (p *Plan) Calls(point string) int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[point]
}

// Unreached lists the rules that never struck.
func (p *Plan) Unreached() []string {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, r := range p.rules {
		if r.struck == 0 {
			names = append(names, fmt.Sprintf("%s %s (call %d, seen %d)", r.Position, r.Point, max(r.Nth, 1), r.calls))
		}
	}
	return names
}

// Wait carries out the waiting part of a strike: a stall lasts until ctx ends, a slow answer for its delay.
// It returns ctx's error if ctx ended. A nil strike returns at once.
func (s *Strike) Wait(ctx context.Context) error {
	if s == nil {
		return nil
	}
	switch s.Position {
	case Stall:
		<-ctx.Done()
		return ctx.Err()
	case Slow:
		t := time.NewTimer(s.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	case Before, After: // nothing to wait for
	}
	return nil
}
