package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
)

// renderer turns events into bytes. A single goroutine uses it.
type renderer interface {
	// event shows one event that happened at that time.
	event(e phase.Event, at time.Time)
	// text shows whole lines as they are.
	text(lines []byte)
	// tick updates the display and returns when it wants the next tick.
	tick(now time.Time) time.Duration
	// finish removes what is shown only while something is running.
	finish(now time.Time)
}

// ErrUnread means that the stream is not read: a pipe stays full.
var ErrUnread = errors.New("the output is closed")

// Progress shows a run's events. It is a phase.Sink, safe for concurrent use, and must be closed.
type Progress struct {
	mode  Mode
	out   *stream
	queue *queue
	quit  chan struct{}
	done  chan struct{} // closed when everything is written
	once  sync.Once

	patience time.Duration

	mu     sync.Mutex
	closed bool
	rest   []byte // of Writer: the incomplete last line
}

// New starts showing progress. Close ends it.
func New(o Options) *Progress {
	o = o.complete()
	p := &Progress{
		mode: o.Mode, out: &stream{w: o.Out}, queue: newQueue(), quit: make(chan struct{}), done: make(chan struct{}),
		patience: o.Patience,
	}
	var r renderer
	switch o.Mode {
	case TTY:
		r = newTTY(p.out, o)
	case JSON:
		r = newJSONLines(p.out)
	case None:
		r = silent{out: p.out}
	default:
		r = newPlain(p.out)
	}
	go func() {
		defer close(p.done)
		p.run(r)
	}()
	return p
}

// Mode is the mode in use; never Auto.
func (p *Progress) Mode() Mode { return p.mode }

// Emit queues the event and returns at once. After Close it does nothing.
func (p *Progress) Emit(e phase.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	now := time.Now()
	if e.Time.IsZero() {
		e.Time = now.UTC()
	}
	p.queue.put(item{event: e, at: now})
}

// Writer returns a writer to the same stream for logs: whole lines appear above the live line, in order. A write never
// blocks or fails; Close prints an incomplete last line. After Close it writes straight to the stream.
func (p *Progress) Writer() io.Writer { return lineWriter{p} }

// Close shows what is queued, removes the live line and waits for the goroutine. It is idempotent and returns the
// stream's first error. If the stream is not read, it gives up with ErrUnread and nothing more is written: a finished
// run must not hang on its messages.
func (p *Progress) Close() error {
	p.once.Do(func() {
		p.mu.Lock()
		if len(p.rest) > 0 {
			p.queue.put(item{text: append(p.rest, '\n')})
		}
		p.closed = true
		p.mu.Unlock()
		close(p.quit)
	})
	return p.flushed()
}

// flushed waits until everything queued is written, or nothing has been for as long as the patience lasts.
func (p *Progress) flushed() error {
	if p.patience == 0 {
		<-p.done
		return p.out.firstError()
	}
	if p.out.unread.Load() {
		return ErrUnread
	}
	timer := time.NewTicker(p.patience)
	defer timer.Stop()
	for written := p.out.written.Load(); ; {
		select {
		case <-p.done:
			return p.out.firstError()
		case <-timer.C:
			now := p.out.written.Load()
			if now == written {
				p.out.unread.Store(true)
				return ErrUnread
			}
			written = now
		}
	}
}

func (p *Progress) run(r renderer) {
	timer := time.NewTimer(r.tick(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-p.queue.wake:
			p.drain(r)
		case <-timer.C:
			timer.Reset(r.tick(time.Now()))
		case <-p.quit:
			p.drain(r)
			r.finish(time.Now())
			return
		}
	}
}

func (p *Progress) drain(r renderer) {
	items, dropped := p.queue.take()
	for _, it := range items {
		if it.text != nil {
			r.text(it.text)
			continue
		}
		r.event(it.event, it.at)
	}
	if dropped > 0 {
		r.event(phase.Event{
			Type: phase.Warning, Time: time.Now().UTC(),
			Message: fmt.Sprintf("%d messages were not shown: the output was too slow", dropped),
		}, time.Now())
	}
}

type lineWriter struct{ p *Progress }

func (w lineWriter) Write(b []byte) (int, error) {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		if err := p.flushed(); errors.Is(err, ErrUnread) { // what is queued comes first
			return 0, err
		}
		return p.out.Write(b)
	}
	end := bytes.LastIndexByte(b, '\n') + 1
	if end > 0 {
		p.queue.put(item{text: append(p.rest, b[:end]...)})
		p.rest = nil
	}
	p.rest = append(p.rest, b[end:]...)
	return len(b), nil
}

// stream stops writing at the first error: the reader is gone, and the run continues without output.
type stream struct {
	written atomic.Int64 // writes that returned
	unread  atomic.Bool  // the pending write may never return

	mu  sync.Mutex
	w   io.Writer
	err error
}

func (s *stream) Write(b []byte) (int, error) {
	if s.unread.Load() {
		return 0, ErrUnread
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	var n int
	n, s.err = s.w.Write(b)
	s.written.Add(1)
	return n, s.err
}

func (s *stream) firstError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// print ignores the error, which the stream keeps for Close.
func (s *stream) print(text string) { _, _ = s.Write([]byte(text)) }

// silent shows only what is written as text.
type silent struct{ out *stream }

func (s silent) event(e phase.Event, _ time.Time) { // no progress, but what belongs to no phase
	if e.Phase == "" && (e.Type == phase.Note || e.Type == phase.Warning) {
		s.out.print(plainLine(e) + "\n")
	}
}
func (s silent) text(lines []byte)          { s.out.print(string(lines)) }
func (silent) tick(time.Time) time.Duration { return time.Hour }
func (silent) finish(time.Time)             {}
