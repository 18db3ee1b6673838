package format

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
)

// fixedKeys has two generations, whose keys are 00 01 02… and 80 81 82….
func fixedKeys(t testing.TB) *Keyring {
	masters := [][]byte{make([]byte, masterSize), make([]byte, masterSize)}
	for i := range masterSize {
		masters[0][i], masters[1][i] = byte(i), byte(0x80+i)
	}
	k, err := newKeyring(masters)
	require.NoError(t, err)
	return k
}

func newKeys(t testing.TB) *Keyring {
	k, err := NewKeyring()
	require.NoError(t, err)
	return k
}

func fixedSource() Source {
	return Source{Archive: "nightly-1", Volumes: []SourceVolume{{Store: 1, Role: "data"}}}
}

// block is the i-th block of the tests: a text of 512 KiB.
func block(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "block %09d\n", i), codec.MaxBlock/16+1)[:codec.MaxBlock]
}

// addBlock seals block i, at one of the levels in turn.
func addBlock(t testing.TB, w *PackWriter, i int) Block {
	levels := []codec.Level{codec.None, codec.S2, codec.ZstdFastest}
	e, err := codec.NewEncoder(levels[i%len(levels)])
	require.NoError(t, err)
	raw := block(i)
	id, packed := e.Encode(raw)
	b, err := w.Add(Origin{Index: uint32(i)}, sha256.Sum256(raw), len(raw), id, packed)
	require.NoError(t, err)
	return b
}

// writePack returns a pack of n blocks, its reference, and where the blocks are.
func writePack(t testing.TB, keys *Keyring, name PackName, n int) ([]byte, PackRef, []Block) {
	var out bytes.Buffer
	w, err := NewPackWriter(&out, keys, fixedSource(), name)
	require.NoError(t, err)
	var blocks []Block
	for i := range n {
		blocks = append(blocks, addBlock(t, w, i))
	}
	size := w.Size()
	require.NoError(t, w.Close())
	require.EqualValues(t, size, out.Len())
	return out.Bytes(), w.Ref(), blocks
}

// saved are the places of a pack's blocks.
func saved(ref PackRef, blocks []Block) Segment {
	var s Segment
	for _, b := range blocks {
		s = append(s, Place{State: Saved, Pack: ref, Block: b})
	}
	return s
}

func identity(t testing.TB) *age.X25519Identity {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return id
}
