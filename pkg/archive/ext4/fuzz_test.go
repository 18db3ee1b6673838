package ext4_test

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
)

// patched is an image of which some bytes are others, and counts its reads.
type patched struct {
	image   []byte
	patches map[int64]byte // what is xored
	reads   int
}

func (p *patched) ReadAt(into []byte, offset int64) (int, error) {
	p.reads++
	n := copy(into, p.image[min(offset, int64(len(p.image))):])
	for at, mask := range p.patches {
		if at >= offset && at < offset+int64(n) {
			into[at-offset] ^= mask
		}
	}
	if n < len(into) {
		return n, io.EOF
	}
	return n, nil
}

// Whatever a volume holds, the reader ends, after few reads, and never reports as free a block that has a superblock or
// is not of the file system.
func FuzzRead(f *testing.F) {
	image := newJournalled(f, newMounted(f, load(f, "no-sums")), revokesFeature|wideFeature, -6, ^uint32(0))
	image.write(transaction{copies: image.wrong()}, transaction{revokes: image.meta}, transaction{copies: image.right()},
		transaction{copies: image.wrong(), open: true})
	areas := []int{1024, 2048, image.inode, image.blocks[0] * image.size, image.bitmaps[0] * image.size}
	for _, b := range append(image.blocks[len(image.blocks)-6:], image.blocks[1:40]...) {
		areas = append(areas, b*image.size)
	}
	whole := image.bytes()
	for area := range areas {
		f.Add([]byte{byte(area), 0, 1, 1, byte(area), 0, 7, 0x80})
	}
	f.Fuzz(func(t *testing.T, patches []byte) {
		p := &patched{image: whole, patches: map[int64]byte{}}
		for ; len(patches) >= 4; patches = patches[4:] {
			area := areas[int(patches[0])%len(areas)]
			p.patches[int64(area)+int64(binary.BigEndian.Uint16(patches[1:])%1024)] ^= patches[3]
		}
		m, err := ext4.Read(t.Context(), p, int64(len(image.raw)))
		require.NoError(t, err)
		require.Less(t, p.reads, 70_000)
		require.False(t, m.Free(0))
		require.False(t, m.Free(int64(len(image.raw))/ext4.BlockSize))
		if m.Reason() != "" {
			require.Zero(t, m.Count())
		}
	})
}
