package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
)

// randomSegment has n places in runs of the four states, in packs that are used in turn and again.
func randomSegment(seed uint64, n int) Segment {
	r := rand.New(rand.NewPCG(seed, 7))
	packs := make([]PackRef, 1+n/100)
	ends := make([]uint32, len(packs))
	for i := range packs {
		binary.BigEndian.PutUint64(packs[i].Name[:], r.Uint64())
		packs[i].Generation, ends[i] = uint32(r.IntN(3)), uint32(packHeaderSize)
	}
	var s Segment
	for len(s) < n {
		state, current := State(r.IntN(4)), r.IntN(len(packs))
		for range min(1+r.IntN(90), n-len(s)) {
			p := Place{State: state}
			if state == Saved {
				p.Pack = packs[current]
				p.Block = Block{Codec: codec.ID(r.IntN(3)), Raw: codec.MaxBlock, Offset: ends[current], Length: 17 + r.Uint32N(200000)}
				binary.BigEndian.PutUint64(p.Block.Digest[:], r.Uint64())
				ends[current] += p.Block.Length
				if r.IntN(10) == 0 {
					p.Block.Raw, p.Block.Offset = 1+r.Uint32N(codec.MaxBlock), uint32(packHeaderSize)+r.Uint32N(1<<25)
				}
			}
			s = append(s, p)
		}
	}
	return s
}

func TestSegment_RoundTrip(t *testing.T) {
	t.Parallel()
	keys := fixedKeys(t)
	for _, n := range []int{1, 2, 1000, SegmentBlocks} {
		want := randomSegment(uint64(n), n)
		name, object, err := want.Seal(keys)
		require.NoError(t, err)
		got, err := OpenSegment(keys, name, object)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// TestSegment_InOrder_TakesLittle: what is not a digest must cost next to nothing where a pack is read in its order.
func TestSegment_InOrder_TakesLittle(t *testing.T) {
	t.Parallel()
	s := make(Segment, SegmentBlocks)
	ref, at := PackRef{}, uint32(packHeaderSize)
	for i := range s {
		if at > 32<<20 {
			at = uint32(packHeaderSize)
			ref.Name[0], ref.Name[1] = byte(i), byte(i>>8)
		}
		b := Block{Digest: sha256.Sum256([]byte{byte(i), byte(i >> 8)}), Raw: codec.MaxBlock, Offset: at, Length: MaxSealed}
		at += b.Length
		s[i] = Place{State: Saved, Pack: ref, Block: b}
	}
	_, object, err := s.Seal(newKeys(t))
	require.NoError(t, err)
	assert.Less(t, len(object), SegmentBlocks*33)
}

func TestSeal_EqualContent_EqualNameAndObject(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	name, object, err := randomSegment(1, 500).Seal(keys)
	require.NoError(t, err)
	again, same, err := randomSegment(1, 500).Seal(keys)
	require.NoError(t, err)
	assert.Equal(t, name, again)
	assert.Equal(t, object, same)
	other, _, err := randomSegment(2, 500).Seal(keys)
	require.NoError(t, err)
	assert.NotEqual(t, name, other)
	elsewhere, _, err := randomSegment(1, 500).Seal(newKeys(t))
	require.NoError(t, err)
	assert.NotEqual(t, name, elsewhere, "who knows the content does not know the name")
}

// TestSeal_CompressedOtherwise_HasAnotherKey: the same nonce and key for two texts would give both away.
func TestSeal_CompressedOtherwise_HasAnotherKey(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	plain, err := randomSegment(1, 500).encode()
	require.NoError(t, err)
	name, object, err := sealSegment(keys, plain)
	require.NoError(t, err)
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	require.NoError(t, err)
	again, other, err := sealPacked(keys, name, e.EncodeAll(plain, nil))
	require.NoError(t, err)
	assert.Equal(t, name, again)
	assert.NotEqual(t, object[prefixSize:sealedStart], other[prefixSize:sealedStart], "they have different keys")
	for _, o := range [][]byte{object, other} {
		_, err = OpenSegment(keys, name, o)
		require.NoError(t, err)
	}
}

func TestOpenSegment_ChangedSwappedOrForeign_Refused(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	name, object, err := randomSegment(1, 50).Seal(keys)
	require.NoError(t, err)
	other, swapped, err := randomSegment(2, 50).Seal(keys)
	require.NoError(t, err)
	for i := range object {
		bad := bytes.Clone(object)
		bad[i] ^= 4
		_, err := OpenSegment(keys, name, bad)
		require.ErrorContains(t, err, name.Path(), "byte %d", i)
	}
	for n := range object {
		_, err := OpenSegment(keys, name, object[:n])
		require.Error(t, err)
	}
	_, err = OpenSegment(keys, name, swapped)
	require.ErrorContains(t, err, "not what was written under this name")
	_, err = OpenSegment(newKeys(t), name, object)
	require.ErrorContains(t, err, "belongs to repository")
	assert.Equal(t, failure.Corrupt, failure.KindOf(err))
	plain, err := randomSegment(1, 50).encode()
	require.NoError(t, err)
	e, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	_, lying, err := sealPacked(keys, other, e.EncodeAll(plain, nil))
	require.NoError(t, err)
	_, err = OpenSegment(keys, other, lying)
	require.ErrorContains(t, err, "its content is that of "+name.Path(), "one with the key put it under a wrong name")
}

func TestSeal_OutOfRange_Refused(t *testing.T) {
	t.Parallel()
	for _, s := range []Segment{nil, make(Segment, SegmentBlocks+1), {{State: Saved}}, {{State: Saved + 1}}} {
		_, _, err := s.Seal(newKeys(t))
		require.ErrorContains(t, err, "encode segment")
	}
}

func TestUnzstd_MoreThanAllowed_Refused(t *testing.T) {
	t.Parallel()
	e, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := e.EncodeAll(make([]byte, 16<<20), nil)
	_, err = unzstd(bomb, maxSegment)
	require.Error(t, err)
	assert.Equal(t, failure.Corrupt, failure.KindOf(err))
}

// The proof of a segment is of its blocks and their numbers, and of nothing that a copy of it may have otherwise.
func TestProof_IsOfTheBlocksAndTheirNumbers(t *testing.T) {
	t.Parallel()
	at := func(pack byte, digest byte) Place {
		return Place{State: Saved, Pack: PackRef{Name: PackName{pack}}, Block: Block{Digest: Digest{digest}}}
	}
	one := Segment{at(1, 1), {}, at(1, 2)}
	require.Equal(t, one.Proof(), Segment{at(5, 1), {State: Free}, at(6, 2)}.Proof())
	for _, other := range []Segment{
		{at(1, 1), at(1, 2), {}}, {{}, at(1, 1), at(1, 2)}, {at(1, 1)}, {at(1, 2), {}, at(1, 1)}, {at(1, 1), at(1, 1), at(1, 2)},
	} {
		require.NotEqual(t, one.Proof(), other.Proof())
	}
	sum := sha256.Sum256(slices.Concat([]byte{0, 0, 0, 0, 1}, make([]byte, 31), []byte{0, 0, 0, 2, 2}, make([]byte, 31)))
	require.Equal(t, Digest(sum), one.Proof())
}

func TestChecksum_IsThatOfTheDigests(t *testing.T) {
	t.Parallel()
	c := NewChecksum()
	c.Add(Digest{1})
	c.Add(Digest{2})
	a, b := Digest{1}, Digest{2}
	assert.Equal(t, Digest(sha256.Sum256(append(a[:], b[:]...))), c.Sum())
}

func FuzzDecodeSegment(f *testing.F) {
	for n := range 4 {
		plain, err := randomSegment(uint64(n), 1+50*n).encode()
		require.NoError(f, err)
		f.Add(plain)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeSegment(data)
		if err != nil {
			assert.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		again, err := s.encode()
		require.NoError(t, err)
		same, err := decodeSegment(again)
		require.NoError(t, err)
		assert.Equal(t, s, same)
	})
}

func FuzzOpenSegment(f *testing.F) {
	keys := fixedKeys(f)
	name, object, err := randomSegment(1, 50).Seal(keys)
	require.NoError(f, err)
	f.Add(object)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := OpenSegment(keys, name, data); err == nil {
			assert.Equal(t, object, data)
		}
	})
}

// TestSealUnique_EqualContent_HasAnotherNameEachTime: a name that was deleted once never comes again.
func TestSealUnique_EqualContent_HasAnotherNameEachTime(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	want := Segment{{State: Zero}}
	names := map[SegmentName]bool{}
	for range 3 {
		name, object, err := want.SealUnique(keys)
		require.NoError(t, err)
		got, err := OpenSegment(keys, name, object)
		require.NoError(t, err)
		require.Equal(t, want, got)
		names[name] = true
	}
	require.Len(t, names, 3)
}
