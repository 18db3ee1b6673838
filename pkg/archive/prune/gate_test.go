package prune_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// fate is what becomes of a call.
type fate int

const (
	done   fate = iota
	lost        // it happened, and its answer is lost
	unsent      // it did not happen, and its process does not learn that
	killed      // its process ends before it
)

// call is one that waits.
type call struct {
	process *process
	name    string
	decide  chan fate
}

// gates lets the calls of all processes happen one at a time, as pass decides.
type gates struct {
	store *objstoretest.Memory
	// anyVersion is whether DeleteVersion deletes any, as on an S3 that knows no better.
	anyVersion bool

	mu      sync.Mutex
	waiting []*call
}

func (g *gates) pending() []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// pass lets a call happen.
func (g *gates) pass(c *call, f fate) {
	g.mu.Lock()
	g.waiting = slices.DeleteFunc(g.waiting, func(o *call) bool { return o == c })
	g.mu.Unlock()
	c.decide <- f
}

// process is a client's view of the store.
type process struct {
	*gates
	dead chan struct{}
	once sync.Once
	free bool // its calls need not wait
}

func (g *gates) process() *process { return &process{gates: g, dead: make(chan struct{})} }

func (p *process) kill() { p.once.Do(func() { close(p.dead) }) }

func (p *process) do(name string, what func() error) error {
	if p.free {
		return what()
	}
	c := &call{process: p, name: name, decide: make(chan fate, 1)}
	p.mu.Lock()
	p.waiting = append(p.waiting, c)
	p.mu.Unlock()
	gone := errors.New("the process was killed")
	var f fate
	select {
	case f = <-c.decide:
	case <-p.dead:
		p.mu.Lock()
		p.waiting = slices.DeleteFunc(p.waiting, func(o *call) bool { return o == c })
		p.mu.Unlock()
		return gone
	}
	unknown := failure.New(failure.Unknown, name, "", "no answer")
	switch f {
	case killed:
		p.kill()
		return gone
	case unsent:
		return unknown
	case lost:
		_ = what()
		return unknown
	case done:
	}
	return what()
}

func (p *process) Create(ctx context.Context, key string, body []byte) (v objstore.Version, err error) {
	err = p.do("create "+key, func() (err error) {
		v, err = p.store.Create(ctx, key, body)
		return err
	})
	return v, err
}

func (p *process) Replace(
	ctx context.Context, key string, body []byte, old objstore.Version,
) (v objstore.Version, err error) {
	err = p.do("replace "+key, func() (err error) {
		v, err = p.store.Replace(ctx, key, body, old)
		return err
	})
	return v, err
}

func (p *process) Get(ctx context.Context, key string) (body []byte, v objstore.Version, err error) {
	err = p.do("get "+key, func() (err error) {
		body, v, err = p.store.Get(ctx, key)
		return err
	})
	return body, v, err
}

func (p *process) GetRange(ctx context.Context, key string, offset int64, into []byte) error {
	return p.do("range "+key, func() error { return p.store.GetRange(ctx, key, offset, into) })
}

func (p *process) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	return p.ListAfter(ctx, prefix, "")
}

func (p *process) ListAfter(ctx context.Context, prefix, after string) (all []objstore.Object, err error) {
	if strings.HasPrefix(prefix, format.PackPrefix) || strings.HasPrefix(prefix, format.SegmentPrefix) {
		return p.store.ListAfter(ctx, prefix, after) // a prune makes 512 of them
	}
	err = p.do("list "+prefix, func() (err error) {
		all, err = p.store.ListAfter(ctx, prefix, after)
		return err
	})
	return all, err
}

func (p *process) Delete(ctx context.Context, key string) error {
	return p.do("delete "+key, func() error { return p.store.Delete(ctx, key) })
}

func (p *process) DeleteVersion(ctx context.Context, key string, old objstore.Version) error {
	if p.anyVersion {
		return p.Delete(ctx, key)
	}
	return p.do("delete "+key, func() error { return p.store.DeleteVersion(ctx, key, old) })
}

func (p *process) URL() string { return "model://" }
