package importer

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/volume"
)

// A file is read many blocks at once, which is more than the limiter lets pass at once.
func TestPace_ManyBlocksAtOnce_AreReadAtThePace(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*volume.BlockSize/16)
	into := make([]byte, len(content))
	n, err := newPace(1<<30).readerAt(t.Context(), bytes.NewReader(content)).ReadAt(into, 0)
	require.NoError(t, err)
	require.Equal(t, content, into[:n])

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = newPace(1).readerAt(ctx, bytes.NewReader(content)).ReadAt(into, 0) // the first block alone passes
	require.Error(t, err)
}
