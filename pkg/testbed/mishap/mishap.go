package mishap

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// slowest is how long a slow call takes at most: longer than a lease of 3 s.
const slowest = 4 * time.Second

// Mishap is what goes wrong in one run.
type Mishap struct {
	// What describes it to a person.
	What string
	// Killed reports that SIGKILL ends the program, which then cannot release the cluster.
	Killed bool
	rules  []fault.Rule
}

// Scene is what a mishap happens to.
type Scene struct {
	Bed     *testbed.Testbed
	Cluster *testbed.Cluster
	Plan    *fault.Plan
	// Signal is sent to the program.
	Signal func(syscall.Signal)

	ctx  context.Context // bounds what mishaps began, until Wait
	work sync.WaitGroup
}

// Draw draws one or two mishaps, and in half of the runs a merge or split that begins just before the leases.
func Draw(seed int64, s *Scene) []Mishap {
	r := rand.New(rand.NewPCG(uint64(seed), 0x401d))
	out := []Mishap{s.draw(r)}
	if r.IntN(4) == 0 {
		out = append(out, s.draw(r))
	}
	// Drawn last, so that the others are as they were before there was any.
	if r.IntN(2) == 0 {
		out = append(out, s.drawChurn(r))
	}
	return out
}

// Begin puts mishaps into force; ctx bounds what they begin.
func (s *Scene) Begin(ctx context.Context, all []Mishap) error {
	s.ctx = ctx
	for _, m := range all {
		for _, rule := range m.rules {
			if err := s.Plan.Add(rule); err != nil {
				return err
			}
		}
	}
	return nil
}

// End ends all mishaps and waits for what they began, such as the restart of a store.
func (s *Scene) End() {
	s.Plan.Clear()
	s.work.Wait()
}

// draw draws one mishap: half of them happen to a call, the others to the cluster or the program at a call.
func (s *Scene) draw(r *rand.Rand) Mishap {
	all := points()
	p := all[r.IntN(len(all))]
	rule := fault.Rule{Point: p.name, Nth: 1 + r.IntN(p.calls), Times: 1 + r.IntN(2)}
	if r.IntN(2) == 0 {
		switch rule.Position = fault.Position(r.IntN(4)); rule.Position {
		case fault.Before:
			rule.Code = p.codes[r.IntN(len(p.codes))]
		case fault.Slow:
			rule.Delay = time.Duration(r.Int64N(int64(slowest)))
		case fault.After, fault.Stall:
		}
		return Mishap{What: fmt.Sprintf("%s %s %s, call %d, %d times", rule.Position, p.name, rule.Code, rule.Nth, rule.Times), rules: []fault.Rule{rule}}
	}
	// The call itself takes a moment, so that what happens falls into it.
	rule.Position, rule.Delay, rule.Times = fault.Slow, time.Duration(r.IntN(500))*time.Millisecond, 1
	event := s.event(r)
	rule.Do = event.do
	return Mishap{What: fmt.Sprintf("%s at %s, call %d", event.what, p.name, rule.Nth), Killed: event.killed, rules: []fault.Rule{rule}}
}

// event is something that happens to the cluster or the program.
type event struct {
	what   string
	do     func()
	killed bool
}

func (s *Scene) event(r *rand.Rand) event {
	n := r.IntN(3)
	choices := []event{
		{what: fmt.Sprintf("store %d forgets its lease", n), do: func() { s.store(n, func(st store) { st.DropLease() }) }},
		{what: fmt.Sprintf("imports resumed on store %d", n), do: func() { s.resumeImports(n) }},
		{what: fmt.Sprintf("store %d restarts", n), do: func() { s.restartStore(n) }},
		{what: fmt.Sprintf("PD's leader moves to member %d", n), do: func() { _ = s.Cluster.PD.TransferLeader(n) }},
		{what: "PD restarts", do: func() { s.work.Go(func() { _ = s.Cluster.PD.Restart() }) }},
		{what: "PD's leader is killed", do: s.killLeader},
		{what: "someone resumes a scheduler", do: func() { s.resumeScheduler(n) }},
		{what: "GC moves on", do: s.moveGC},
		{what: "SIGINT", do: func() { s.Signal(syscall.SIGINT) }},
		{what: "SIGTERM", do: func() { s.Signal(syscall.SIGTERM) }},
		{what: "SIGKILL", do: func() { s.Signal(syscall.SIGKILL) }, killed: true},
		{what: "SIGKILL", do: func() { s.Signal(syscall.SIGKILL) }, killed: true},
	}
	return choices[r.IntN(len(choices))]
}

// store is what a mishap does to a store.
type store interface {
	DropLease()
	Addr() string
}

func (s *Scene) store(n int, do func(store)) {
	if all := s.Cluster.Stores(); len(all) > 0 {
		do(all[n%len(all)])
	}
}

func (s *Scene) resumeImports(n int) {
	s.store(n, func(st store) {
		client := tikv.Open(tikv.Config{})
		defer client.Close()
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		defer cancel()
		_, _ = client.ResumeImport(ctx, st.Addr(), "someone") // a store that restarted has forgotten it anyway
	})
}

func (s *Scene) restartStore(n int) {
	pods := s.Cluster.Pods()
	if len(pods) == 0 {
		return
	}
	s.work.Go(func() { _ = s.Bed.RestartStore(s.ctx, s.Cluster.Name, pods[n%len(pods)]) }) // ctx ends it
}

func (s *Scene) killLeader() {
	s.work.Go(func() {
		if leader := s.Cluster.PD.Leader(); leader >= 0 {
			s.Cluster.PD.KillMember(leader)
			_ = s.Cluster.PD.StartMember(leader)
		}
	})
}

func (s *Scene) resumeScheduler(n int) {
	if all := s.Cluster.PD.Schedulers(); len(all) > 0 {
		_ = s.Cluster.PD.PauseByOther(all[n%len(all)].Name, 0) // 0 resumes
	}
}

// moveGC does what TiDB's GC worker would not, and a person with a tool can: it moves GC past everything.
func (s *Scene) moveGC() {
	if ts, err := s.Cluster.PD.FreshTS(s.ctx); err == nil {
		s.Cluster.PD.SetGCSafePoint(ts)
	}
}
