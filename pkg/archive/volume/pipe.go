package volume

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
)

// pipeBlocks are read ahead: 16 MiB. A chunk and one more are the least.
const pipeBlocks = 2 * chunkBlocks

// Pipe is what a reader returns up to its end, as a volume. Its memory is 16 MiB, however much that is.
type Pipe struct {
	from  io.Reader
	begin sync.Once
	free  chan []byte
	full  chan piece
	stop  chan struct{}

	size  atomic.Int64 // of what was listed, and of next
	next  *piece       // that was read, and is not listed yet
	ended error        // io.EOF after the last piece
	index int64        // of the next block
}

// piece is a block that was read, or why there is none.
type piece struct {
	data []byte
	err  error
}

// NewPipe returns a pipe, which reads once its blocks are listed. The caller must call Close.
func NewPipe(from io.Reader) *Pipe {
	p := &Pipe{
		from: from, free: make(chan []byte, pipeBlocks), full: make(chan piece, pipeBlocks), stop: make(chan struct{}),
	}
	for range pipeBlocks {
		p.free <- nil // allocated when it is needed
	}
	return p
}

// Close ends the reading. A read that is under way is not waited for: nothing can end that of a blocking pipe.
func (p *Pipe) Close() { close(p.stop) }

// fill reads ahead, until the end or Close.
func (p *Pipe) fill() {
	for {
		var buffer []byte
		select {
		case buffer = <-p.free:
		case <-p.stop:
			return
		}
		if buffer == nil {
			buffer = make([]byte, BlockSize)
		}
		n, err := 0, error(nil)
		for n < BlockSize && err == nil {
			var more int
			more, err = p.from.Read(buffer[n:BlockSize])
			n += more
		}
		select {
		case p.full <- piece{buffer[:n], err}:
		case <-p.stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// Size implements Source.
func (p *Pipe) Size() int64 { return p.size.Load() }

// More implements Growing.
func (p *Pipe) More(ctx context.Context) (bool, error) {
	p.begin.Do(func() { go p.fill() })
	if p.next != nil {
		return true, nil
	}
	if p.ended == nil {
		select {
		case read := <-p.full:
			p.ended = read.err
			if len(read.data) > 0 {
				p.next = &read
				p.size.Add(int64(len(read.data)))
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	if p.ended != nil && !errors.Is(p.ended, io.EOF) { // what came before it is of no use
		return false, failure.Wrap(p.ended, failure.Unknown, "read", "")
	}
	return p.next != nil, nil
}

// Blocks implements Source: only those that were not listed yet can be.
func (p *Pipe) Blocks(ctx context.Context, from, to int64) iter.Seq2[Block, error] {
	return func(yield func(Block, error) bool) {
		if from != p.index {
			yield(nil, failure.New(failure.Usage, "read", "", "block %d comes next, not %d", p.index, from))
			return
		}
		for p.index < to {
			more, err := p.More(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if !more {
				return
			}
			b := pipeBlock{p, p.index, p.next.data}
			p.index, p.next = p.index+1, nil
			if !yield(b, nil) {
				return
			}
		}
	}
}

type pipeBlock struct {
	pipe  *Pipe
	index int64
	data  []byte
}

func (b pipeBlock) Index() int64 { return b.index }

func (b pipeBlock) Absent() bool { return false }

func (b pipeBlock) Read(_ context.Context, into []byte) (format.Digest, error) {
	if len(into) != len(b.data) {
		return format.Digest{}, failure.New(failure.Usage, "read", "", "block %d has %d bytes, not %d", b.index,
			len(b.data), len(into))
	}
	copy(into, b.data)
	b.pipe.free <- b.data[:cap(b.data)] // there is room for all
	return digestOf(into), nil
}
