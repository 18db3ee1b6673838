package volume

import (
	"context"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// windowBlocks are read before they are written in their order: 32 MiB.
const windowBlocks = 64

// Stream writes an archived volume to w, from its first byte to its last, zeros included. It reads one window of 32 MiB
// while it writes another, and so many ranges of packs at the same time, in the memory of ReadBlocks. It ends before
// the window of the first block that is not what was archived: w got the volume's beginning. The error, which is
// Corrupt, names the blocks of that window.
func Stream(ctx context.Context, r *repository.Repository, v format.Volume, w io.Writer, reads int) error {
	group, ctx := errgroup.WithContext(ctx)
	free, full := make(chan []byte, 2), make(chan []byte, 2)
	for range cap(free) {
		free <- nil // allocated when it is needed
	}
	group.Go(func() error {
		defer close(full)
		return readWindows(ctx, r, v, reads, free, full)
	})
	group.Go(func() error {
		for window := range full {
			if _, err := w.Write(window); err != nil {
				return failure.Wrap(err, failure.Unknown, "write volume", v.Role)
			}
			free <- window
		}
		return nil
	})
	return group.Wait()
}

// readWindows fills free windows, and passes them on in the volume's order.
func readWindows(
	ctx context.Context, r *repository.Repository, v format.Volume, reads int, free <-chan []byte, full chan<- []byte,
) error {
	for part, err := range Parts(ctx, r, v) {
		if err != nil {
			return failure.Annotate(err, "restore volume", v.Role)
		}
		for from := int64(0); from < part.Blocks; from += windowBlocks {
			var window []byte
			select {
			case window = <-free:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			at := Part{First: part.First + from, Blocks: min(windowBlocks, part.Blocks-from)}
			at.Places = part.Places[from : from+at.Blocks]
			if window, err = readWindow(ctx, r, v, at, reads, window); err != nil {
				return err
			}
			full <- window
		}
	}
	return nil
}

func readWindow(
	ctx context.Context, r *repository.Repository, v format.Volume, at Part, reads int, window []byte,
) ([]byte, error) {
	if window == nil {
		window = make([]byte, windowBlocks*BlockSize)
	}
	window = window[:min(at.Blocks*BlockSize, v.Size-at.First*BlockSize)]
	clear(window)
	var bad lost
	err := r.ReadBlocks(ctx, at.Places, reads, func(_ context.Context, i int, block []byte, lost error) error {
		index := at.First + int64(i)
		if lost = fits(v, index, block, lost); lost != nil {
			bad.add(index, at.Places[i].Pack.Name, lost)
			return nil
		}
		copy(window[int64(i)*BlockSize:], block)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return window, failed("restore volume", v, bad.ranges())
}
