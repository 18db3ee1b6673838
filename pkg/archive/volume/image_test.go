package volume_test

import (
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
)

// alone fails a write that begins while another one is under way.
type alone struct{ busy sync.Mutex }

func (a *alone) WriteAt(p []byte, _ int64) (int, error) {
	if !a.busy.TryLock() {
		return 0, io.ErrShortWrite
	}
	defer a.busy.Unlock()
	for range 100 {
		runtime.Gosched()
	}
	return len(p), nil
}

// Writes to one file that wait for each other in the kernel take several times the processor.
func TestImage_OneByOne_WritesNoTwoAtATime(t *testing.T) {
	t.Parallel()
	image := &volume.Image{To: &alone{}, OneByOne: true}
	var writers errgroup.Group
	for w := range int64(8) {
		writers.Go(func() error {
			for n := range int64(50) {
				if err := image.Write(t.Context(), 50*w+n, []byte{1}, format.Digest{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, writers.Wait())
}

// A source that ends early, or has a bad sector, is read many blocks at once, and the block is named all the same.
func TestImage_EndsEarly_NamesTheBlock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	short := image(numbered(6))
	short.Bytes += 3 * volume.BlockSize
	_, _, err := l.archive(t, short, volume.Base{}, nil)
	require.ErrorIs(t, err, io.EOF)
	require.ErrorContains(t, err, "read of block 6")
}
