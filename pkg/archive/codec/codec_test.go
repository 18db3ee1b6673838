package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
)

// noise fills a block with bytes that nothing can shrink.
func noise(r *rand.Rand, b []byte) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
}

// text is log lines.
func text(r *rand.Rand, b []byte) {
	out := b[:0]
	for len(out) < len(b) {
		line := fmt.Appendf(nil, "[2026/11/26 11:%02d:%02d.%03d] [INFO] [apply.rs:%d] [\"region %d applied index %d\"]\n",
			r.IntN(60), r.IntN(60), r.IntN(1000), r.IntN(2000), r.IntN(50000), r.IntN(1<<30))
		out = append(out, line[:min(len(line), len(b)-len(out))]...)
	}
}

// rows is what TiKV's upper levels hold: keys that share prefixes, values of digits and random bytes, not compressed.
func rows(r *rand.Rand, b []byte) {
	out, random := b[:0], make([]byte, 16)
	for len(out) < len(b) {
		noise(r, random)
		row := fmt.Appendf(nil, "t\x80\x00\x00\x00\x00\x00\x00\x52_r\x80%07d%s%019d-%019d-%019d", r.IntN(10_000_000),
			random, r.Int64(), r.Int64(), r.Int64())
		out = append(out, row[:min(len(row), len(b)-len(out))]...)
	}
}

// lowerLevel is what TiKV's lower levels hold: rows in blocks of 32 KiB that zstd has compressed already, with an
// index between them.
func lowerLevel(r *rand.Rand, b []byte) {
	out, raw := b[:0], make([]byte, 32<<10)
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	for len(out) < len(b) {
		rows(r, raw)
		part := e.EncodeAll(raw, nil)
		part = binary.LittleEndian.AppendUint64(part, uint64(len(part)))
		out = append(out, part[:min(len(part), len(b)-len(out))]...)
	}
}

// snappyLevel is rows compressed without entropy coding, whose literals can shrink further.
func snappyLevel(r *rand.Rand, b []byte) {
	out, raw := b[:0], make([]byte, 32<<10)
	for len(out) < len(b) {
		rows(r, raw)
		part := s2.EncodeSnappy(nil, raw)
		out = append(out, part[:min(len(part), len(b)-len(out))]...)
	}
}

type set struct {
	name string
	fill func(*rand.Rand, []byte)
}

func sets() []set {
	return []set{{"noise", noise}, {"text", text}, {"rows", rows}, {"lower level", lowerLevel}, {"snappy level", snappyLevel}}
}

func (s set) blocks(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, codec.MaxBlock)
		s.fill(r, out[i])
	}
	return out
}

func encoder(t testing.TB, level codec.Level) *codec.Encoder {
	e, err := codec.NewEncoder(level)
	require.NoError(t, err)
	return e
}

func decoder(t testing.TB) *codec.Decoder {
	d, err := codec.NewDecoder()
	require.NoError(t, err)
	return d
}

func TestEncode_EveryLevelAndSet_ComesBack(t *testing.T) {
	t.Parallel()
	d := decoder(t)
	for _, s := range sets() {
		block := s.blocks(1)[0]
		for _, level := range codec.Levels() {
			for _, size := range []int{1, 4096, codec.MaxBlock} {
				id, packed := encoder(t, level).Encode(block[:size])
				back := make([]byte, size)
				require.NoError(t, d.Decode(back, id, packed), "%s at %s", s.name, level)
				require.True(t, bytes.Equal(block[:size], back), "%s at %s", s.name, level)
				require.LessOrEqual(t, len(packed), size)
			}
		}
	}
}

func TestEncode_BlockThatDoesNotShrink_IsStoredAsItIs(t *testing.T) {
	t.Parallel()
	block := set{"noise", noise}.blocks(1)[0]
	for _, level := range codec.Levels() {
		id, packed := encoder(t, level).Encode(block)
		assert.Equal(t, codec.Stored, id, level)
		assert.Same(t, &block[0], &packed[0], level)
	}
}

func TestEncode_SavesLessThanThreePercent_IsStoredAsItIs(t *testing.T) {
	t.Parallel()
	block := set{"noise", noise}.blocks(1)[0]
	clear(block[:len(block)/50]) // 2 %
	for _, level := range codec.Levels() {
		id, _ := encoder(t, level).Encode(block)
		assert.Equal(t, codec.Stored, id, level)
	}
	clear(block[:len(block)/25]) // 4 %
	for _, level := range codec.Levels()[1:] {
		id, _ := encoder(t, level).Encode(block)
		assert.NotEqual(t, codec.Stored, id, level)
	}
}

// TestEncode_Auto_LosesNoRatio compares what auto stores with what zstd without a probe stores.
func TestEncode_Auto_LosesNoRatio(t *testing.T) {
	t.Parallel()
	always, auto := encoder(t, codec.ZstdFastest), encoder(t, codec.Auto)
	repeated := set{"noise that repeats", func(r *rand.Rand, b []byte) {
		noise(r, b[:4096])
		for n := 4096; n < len(b); n *= 2 {
			copy(b[n:], b[:n])
		}
	}}
	for _, s := range append(sets(), repeated) {
		var withProbe, without int
		for _, block := range s.blocks(8) {
			_, packed := always.Encode(block)
			without += len(packed)
			_, packed = auto.Encode(block)
			withProbe += len(packed)
		}
		t.Logf("%s: ratio %.3f, with probe %.3f", s.name, float64(without)/(8<<19), float64(withProbe)/(8<<19))
		assert.LessOrEqual(t, float64(withProbe), 1.005*float64(without), s.name)
	}
}

func TestDecode_WrongLength_Refused(t *testing.T) {
	t.Parallel()
	d, block := decoder(t), set{"text", text}.blocks(1)[0]
	for _, level := range []codec.Level{codec.None, codec.S2, codec.ZstdFastest} {
		id, packed := encoder(t, level).Encode(block)
		for _, size := range []int{0, len(block) - 1, len(block) + 1} {
			room := bytes.Repeat([]byte{7}, len(block)+2)
			err := d.Decode(room[:size], id, packed)
			require.Error(t, err, "%s into %d", level, size)
			assert.Equal(t, failure.Corrupt, failure.KindOf(err))
			assert.Equal(t, bytes.Repeat([]byte{7}, len(room)-size), room[size:], "nothing is written beyond the block")
		}
	}
	require.ErrorContains(t, d.Decode(nil, 3, nil), "codec 3 is unknown")
}

func TestParseLevel_Unknown_NamesAll(t *testing.T) {
	t.Parallel()
	level, err := codec.ParseLevel("zstd:better")
	require.NoError(t, err)
	assert.Equal(t, codec.ZstdBetter, level)
	_, err = codec.ParseLevel("zstd:22")
	require.ErrorContains(t, err, "zstd:22")
	require.ErrorContains(t, err, "zstd:best")
	assert.Equal(t, failure.Usage, failure.KindOf(err))
	_, err = codec.NewEncoder("lz4")
	require.Error(t, err)
}

func FuzzDecode(f *testing.F) {
	block := set{"text", text}.blocks(1)[0][:8192]
	for _, level := range []codec.Level{codec.None, codec.S2, codec.ZstdBest} {
		e, err := codec.NewEncoder(level)
		require.NoError(f, err)
		id, packed := e.Encode(block)
		f.Add(uint8(id), packed, uint32(len(block)))
	}
	d := decoder(f)
	f.Fuzz(func(t *testing.T, id uint8, packed []byte, size uint32) {
		room := bytes.Repeat([]byte{7}, int(size%codec.MaxBlock)+1)
		last := len(room) - 1
		_ = d.Decode(room[:last], codec.ID(id), packed)
		assert.Equal(t, byte(7), room[last])
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, s := range sets() {
		blocks := s.blocks(8)
		for _, level := range codec.Levels()[1:] {
			b.Run(s.name+"/"+string(level), func(b *testing.B) {
				e := encoder(b, level)
				var stored, raw int
				b.SetBytes(codec.MaxBlock)
				for i := 0; b.Loop(); i++ {
					_, packed := e.Encode(blocks[i%len(blocks)])
					stored, raw = stored+len(packed), raw+codec.MaxBlock
				}
				b.ReportMetric(float64(stored)/float64(raw), "ratio")
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, level := range []codec.Level{codec.S2, codec.ZstdFastest} {
		b.Run(string(level), func(b *testing.B) {
			block, d := set{"rows", rows}.blocks(1)[0], decoder(b)
			id, packed := encoder(b, level).Encode(block)
			b.SetBytes(codec.MaxBlock)
			for b.Loop() {
				require.NoError(b, d.Decode(block, id, packed))
			}
		})
	}
}
