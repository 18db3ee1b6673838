package importer

import (
	"context"
	"io"

	"golang.org/x/time/rate"

	"github.com/tisnap/tisnap/pkg/archive/volume"
)

// pace bounds the rate of all reads; nil does not.
type pace struct{ limiter *rate.Limiter }

func newPace(bytesPerSecond float64) *pace {
	if bytesPerSecond == 0 {
		return nil
	}
	return &pace{rate.NewLimiter(rate.Limit(bytesPerSecond), volume.BlockSize)}
}

// reader reads at the pace, at most a block at a time.
func (p *pace) reader(ctx context.Context, from io.Reader) io.Reader {
	if p == nil {
		return from
	}
	return readerFunc(func(into []byte) (int, error) {
		n, err := from.Read(into[:min(len(into), volume.BlockSize)])
		if waited := p.limiter.WaitN(ctx, n); waited != nil {
			return n, waited
		}
		return n, err
	})
}

// readerAt reads at the pace, any number of bytes at once.
func (p *pace) readerAt(ctx context.Context, from io.ReaderAt) io.ReaderAt {
	if p == nil {
		return from
	}
	return readerAtFunc(func(into []byte, at int64) (int, error) {
		for left := len(into); left > 0; left -= volume.BlockSize { // what it takes at once
			if err := p.limiter.WaitN(ctx, min(left, volume.BlockSize)); err != nil {
				return 0, err
			}
		}
		return from.ReadAt(into, at)
	})
}

type readerFunc func(into []byte) (int, error)

func (f readerFunc) Read(into []byte) (int, error) { return f(into) }

type readerAtFunc func(into []byte, at int64) (int, error)

func (f readerAtFunc) ReadAt(into []byte, at int64) (int, error) { return f(into, at) }
