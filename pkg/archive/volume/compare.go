package volume

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Compare reads an image, and reports whether each of its blocks is that of the archived volume: saved ones by their
// digests, and the others as zeros. It reads the volume's map from the repository, and no pack.
func Compare(ctx context.Context, r *repository.Repository, v format.Volume, image io.ReaderAt) (same bool, err error) {
	block := make([]byte, BlockSize)
	for part, err := range Parts(ctx, r, v) {
		if err != nil {
			return false, failure.Annotate(err, "compare volume", v.Role)
		}
		for i, place := range part.Places {
			if err := ctx.Err(); err != nil {
				return false, context.Cause(ctx)
			}
			index := part.First + int64(i)
			is := block[:sizeOf(v, index)]
			if n, err := image.ReadAt(is, index*BlockSize); n < len(is) {
				return false, failure.Wrap(err, failure.Unknown, "compare volume", v.Role)
			}
			if place.State == format.Saved && sha256.Sum256(is) != place.Block.Digest ||
				place.State != format.Saved && !bytes.Equal(is, zeros[:len(is)]) {
				return false, nil
			}
		}
	}
	return true, nil
}
