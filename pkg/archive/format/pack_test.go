package format

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
)

func read(keys *Keyring, name PackName, data []byte) (Contents, error) {
	return ReadPack(bytes.NewReader(data), int64(len(data)), keys, name)
}

func TestPack_RoundTrip(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	data, ref, blocks := writePack(t, keys, PackName{1}, 5)
	got, err := read(keys, ref.Name, data)
	require.NoError(t, err)
	want := Contents{Ref: ref, Source: fixedSource()}
	for i, b := range blocks {
		want.Blocks = append(want.Blocks, Entry{Block: b, Origin: Origin{Index: uint32(i)}})
	}
	assert.Equal(t, want, got)
	pack, err := keys.Pack(ref)
	require.NoError(t, err)
	d, err := codec.NewDecoder()
	require.NoError(t, err)
	for i, b := range blocks {
		packed, err := pack.Open(nil, b, data[b.Offset:b.end()])
		require.NoError(t, err)
		raw := make([]byte, b.Raw)
		require.NoError(t, d.Decode(raw, b.Codec, packed))
		assert.True(t, bytes.Equal(block(i), raw))
	}
}

func TestNewPackWriter_EachHasItsOwnName(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	a, err := NewPackWriter(&bytes.Buffer{}, keys, Source{}, NewPackName())
	require.NoError(t, err)
	b, err := NewPackWriter(&bytes.Buffer{}, keys, Source{}, NewPackName())
	require.NoError(t, err)
	assert.NotEqual(t, a.Ref().Name, b.Ref().Name)
}

// TestReadPack_EveryByteOfItsFrame_IsChecked changes each byte of the header, trailer and footer.
func TestReadPack_EveryByteOfItsFrame_IsChecked(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	data, ref, blocks := writePack(t, keys, PackName{1}, 3)
	for i := range data {
		if i >= packHeaderSize && i < int(blocks[2].end()) {
			continue
		}
		bad := bytes.Clone(data)
		bad[i] ^= 4
		_, err := read(keys, ref.Name, bad)
		require.ErrorContains(t, err, ref.Name.Path(), "byte %d", i)
	}
	for _, n := range []int{0, 1, packHeaderSize, len(data) - 1} {
		_, err := read(keys, ref.Name, data[:n])
		require.ErrorContains(t, err, ref.Name.Path(), "%d bytes", n)
	}
	_, err := read(keys, ref.Name, slices.Insert(bytes.Clone(data), int(blocks[2].end()), 0))
	require.Error(t, err)
}

func TestReadPack_OfAnotherNameOrRepository_Refused(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	data, ref, _ := writePack(t, keys, PackName{1}, 1)
	_, err := read(keys, PackName{2}, data)
	require.ErrorContains(t, err, "it is pack 01")
	assert.Equal(t, failure.Corrupt, failure.KindOf(err))
	renamed := bytes.Clone(data)
	renamed[prefixSize] = 2
	_, err = read(keys, PackName{2}, renamed)
	require.ErrorContains(t, err, "trailer is not what was written")
	_, err = read(newKeys(t), ref.Name, data)
	require.ErrorContains(t, err, "belongs to repository "+keys.Repository().String())
	later := bytes.Clone(data)
	later[7] = 2
	_, err = read(keys, ref.Name, later)
	require.ErrorContains(t, err, "version 2 is unknown")
	assert.NotEmpty(t, failure.HintOf(err))
}

// TestOpen_ChangedOrMoved_Refused gives a block's bytes, or what is known of it, in another way than they were written.
func TestOpen_ChangedOrMoved_Refused(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	data, ref, blocks := writePack(t, keys, PackName{1}, 4) // blocks 0 and 3 are stored as they are, so of one length
	pack, err := keys.Pack(ref)
	require.NoError(t, err)
	sealed := func(b Block) []byte { return bytes.Clone(data[b.Offset:b.end()]) }
	refused := func(p *Pack, b Block, bytes []byte) {
		t.Helper()
		_, err := p.Open(nil, b, bytes)
		require.ErrorContains(t, err, p.ref.Name.Path())
		assert.Equal(t, failure.Corrupt, failure.KindOf(err))
	}
	flipped := sealed(blocks[0])
	flipped[100] ^= 1
	refused(pack, blocks[0], flipped)
	refused(pack, blocks[0], sealed(blocks[3]))
	refused(pack, blocks[0], sealed(blocks[0])[1:])
	for _, change := range []func(*Block){
		func(b *Block) { b.Digest[0]++ }, func(b *Block) { b.Raw-- }, func(b *Block) { b.Codec++ }, func(b *Block) { b.Offset++ },
		func(b *Block) { b.Length = MaxSealed + 1 },
	} {
		other := blocks[0]
		change(&other)
		refused(pack, other, sealed(blocks[0]))
	}
	elsewhere, err := keys.Pack(PackRef{Name: PackName{2}})
	require.NoError(t, err)
	refused(elsewhere, blocks[0], sealed(blocks[0]))
	_, err = keys.Pack(PackRef{Name: ref.Name, Generation: 1})
	require.ErrorContains(t, err, "key generation 1 is unknown")
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return len(p) / 2, errors.New("disk is full")
	}
	return len(p), nil
}

// TestAdd_AfterAnError_SealsNothing: another block at the same offset would have the same nonce.
func TestAdd_AfterAnError_SealsNothing(t *testing.T) {
	t.Parallel()
	w, err := NewPackWriter(&failing{after: 2}, newKeys(t), Source{}, NewPackName())
	require.NoError(t, err)
	addBlock(t, w, 0)
	_, err = w.Add(Origin{}, Digest{}, 1, codec.Stored, []byte{1})
	require.ErrorContains(t, err, "disk is full")
	w.w = &bytes.Buffer{}
	_, err = w.Add(Origin{}, Digest{}, 1, codec.Stored, []byte{2})
	require.ErrorContains(t, err, "disk is full")
	require.ErrorContains(t, w.Close(), "disk is full")
}

func TestNewPackWriter_SourceTooLong_Refused(t *testing.T) {
	t.Parallel()
	_, err := NewPackWriter(&bytes.Buffer{}, newKeys(t), Source{Archive: string(make([]byte, maxSource))}, NewPackName())
	require.ErrorContains(t, err, "at most 65535 are allowed")
}

func TestAdd_BlockOutOfRange_Refused(t *testing.T) {
	t.Parallel()
	w, err := NewPackWriter(&bytes.Buffer{}, newKeys(t), Source{}, NewPackName())
	require.NoError(t, err)
	require.ErrorContains(t, w.Close(), "no block")
	w, err = NewPackWriter(&bytes.Buffer{}, newKeys(t), Source{}, NewPackName())
	require.NoError(t, err)
	for _, packed := range []int{0, codec.MaxBlock + 1} {
		_, err = w.Add(Origin{}, Digest{}, packed, codec.Stored, make([]byte, packed))
		require.ErrorContains(t, err, "does not fit", packed)
	}
	addBlock(t, w, 0)
	w.at = MaxPackSize - MaxSealed
	assert.True(t, w.Full())
	_, err = w.Add(Origin{}, Digest{}, 1, codec.Stored, []byte{1})
	require.ErrorContains(t, err, "does not fit")
}

func TestClose_ThenAdd_Refused(t *testing.T) {
	t.Parallel()
	w, err := NewPackWriter(&bytes.Buffer{}, newKeys(t), Source{}, NewPackName())
	require.NoError(t, err)
	addBlock(t, w, 0)
	require.NoError(t, w.Close())
	_, err = w.Add(Origin{}, Digest{}, 1, codec.Stored, []byte{1})
	require.ErrorContains(t, err, "closed")
	require.ErrorContains(t, w.Close(), "closed")
}

func FuzzReadPack(f *testing.F) {
	keys := fixedKeys(f)
	data, ref, blocks := writePack(f, keys, PackName{1}, 2)
	entries := []Entry{{Block: blocks[0]}, {Block: blocks[1], Origin: Origin{Volume: 1, Index: 7}}}
	f.Add(data, encodeTrailer([]byte(`{"archive":"a"}`), entries), blocks[1].end())
	f.Add(data[:60], encodeTrailer([]byte("{}"), entries)[:49], int64(1<<40))
	f.Fuzz(func(t *testing.T, object, trailer []byte, end int64) {
		if _, err := read(keys, ref.Name, object); err == nil {
			assert.True(t, bytes.Equal(data[:packHeaderSize], object[:packHeaderSize]))
		}
		if _, got, err := decodeTrailer(trailer, end); err == nil {
			size := 2 + int(trailer[0])<<8 + int(trailer[1])
			assert.Equal(t, trailer, encodeTrailer(trailer[2:size], got))
		}
	})
}
