package archivebench

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/wait"
)

// path is a way over the network: a proxy on loopback.
type path struct {
	to     string        // address
	trip   time.Duration // there and back
	window int           // bytes that a connection has on their way, in each direction
	each   int64         // bytes after which a connection is reset, on average; 0 never resets one

	listener net.Listener
	conns    sync.WaitGroup
	up, down atomic.Int64 // bytes that were passed on
	resets   atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
}

// open starts the proxy, which ends with ctx. close waits for it.
func (p *path) open(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.listener, p.random = listener, rand.New(newRandom(6))
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // ends Accept
	p.conns.Go(func() {
		defer stop()
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			near, _ := c.(*net.TCPConn) // the listener is of TCP
			p.conns.Go(func() { p.carry(ctx, near) })
		}
	})
	return nil
}

func (p *path) close() { p.conns.Wait() }

// url is the endpoint of the proxy.
func (p *path) url() string { return "http://" + p.listener.Addr().String() }

// carry passes on what both sides send, until one ends.
func (p *path) carry(ctx context.Context, near *net.TCPConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", p.to)
	if err != nil {
		_ = near.Close() // the client sees it
		return
	}
	away, _ := c.(*net.TCPConn)                                                  // as asked for
	defer context.AfterFunc(ctx, func() { _, _ = near.Close(), away.Close() })() // ends both directions
	left := p.life()
	var both sync.WaitGroup
	for _, way := range []struct {
		from, to *net.TCPConn
		passed   *atomic.Int64
	}{{near, away, &p.up}, {away, near, &p.down}} {
		both.Go(func() {
			defer cancel()
			err := p.pass(ctx, way.from, way.to, way.passed, left)
			if errors.Is(err, errReset) {
				p.resets.Add(1)
				_, _ = near.SetLinger(0), away.SetLinger(0) // closing sends a reset
			}
		})
	}
	both.Wait()
}

// life is after how many bytes a connection is reset; nil never.
func (p *path) life() *atomic.Int64 {
	if p.each == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var left atomic.Int64
	left.Store(1 + int64(p.random.ExpFloat64()*float64(p.each)))
	return &left
}

var errReset = errors.New("reset")

// pass passes on one direction: each byte after half of a round trip, with at most a window on their way.
func (p *path) pass(ctx context.Context, from io.Reader, to io.Writer, passed *atomic.Int64, left *atomic.Int64) error {
	type piece struct {
		data []byte
		due  time.Time
	}
	const pieces = 16
	free, sent := make(chan struct{}, pieces), make(chan piece, pieces)
	for range pieces {
		free <- struct{}{}
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(sent)
	failed := make(chan error, 1)
	writing.Go(func() {
		for s := range sent {
			if wait.For(ctx, time.Until(s.due)) != nil {
				continue // the rest is dropped
			}
			if _, err := to.Write(s.data); err != nil {
				failed <- err
				return
			}
			passed.Add(int64(len(s.data)))
			writing.Go(func() { // the acknowledgement
				_ = wait.For(ctx, p.trip/2)
				free <- struct{}{}
			})
		}
	})
	for {
		select {
		case <-free:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		data := make([]byte, p.window/pieces)
		n, err := from.Read(data)
		if err != nil {
			return err
		}
		if left != nil && left.Add(-int64(n)) < 0 {
			return errReset
		}
		sent <- piece{data[:n], time.Now().Add(p.trip / 2)}
	}
}
