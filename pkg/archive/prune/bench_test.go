package prune_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/objstore"
)

const (
	blocksInAPack = 64
	packSize      = 32 << 20
	deadInHundred = 10
	// One of so many packs in use has one block alone, of oneBlock compressed bytes. So 1.97% is unused, of which
	// maxUnused may stay.
	mostlyUnused = 50
	oneBlock     = 16 << 10
	maxUnused    = 0.01
	// What is allowed, of processors for a million packs, and of memory.
	maxCPU    = time.Minute
	maxMemory = 256 << 20
)

// synthetic is a storage that has the listing of very many packs, and in the first of each pack that is mostly unused
// the same block. New packs are counted and not kept.
type synthetic struct {
	objstore.Store
	packs    int
	rewrites bool // there are packs that are mostly unused
	keys     *format.Keyring
	raw      []byte // the block
	packed   []byte // compressed
	created  atomic.Int64

	mu   sync.Mutex
	gone map[format.PackName]bool
}

// block writes a pack's beginning with its block.
func (s *synthetic) block(name format.PackName) (text []byte, b format.Block, err error) {
	var out bytes.Buffer
	w, err := format.NewPackWriter(&out, s.keys, format.Source{}, name)
	if err == nil {
		b, err = w.Add(format.Origin{}, sha256.Sum256(s.raw), len(s.raw), codec.InZstd, s.packed)
	}
	return out.Bytes(), b, err
}

func (s *synthetic) GetRange(ctx context.Context, key string, offset int64, into []byte) error {
	name, err := format.ParsePackPath(key)
	if err != nil {
		return s.Store.GetRange(ctx, key, offset, into)
	}
	text, _, err := s.block(name)
	copy(into, text[offset:])
	return err
}

func (s *synthetic) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if !strings.HasPrefix(key, format.PackPrefix) {
		return s.Store.Create(ctx, key, body)
	}
	s.created.Add(1)
	return "e", nil
}

// packName is that of a pack by its number.
func packName(n int) (p format.PackName) {
	p[0] = byte(n)
	binary.BigEndian.PutUint64(p[1:], uint64(n)*0x9e3779b97f4a7c15)
	return p
}

func (s *synthetic) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	of, is := strings.CutPrefix(prefix, format.PackPrefix)
	if !is {
		return s.Store.List(ctx, prefix)
	}
	first, err := strconv.ParseUint(of[:2], 16, 8)
	var out []objstore.Object
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := int(first); n < s.packs; n += 256 {
		if s.gone[packName(n)] {
			continue
		}
		out = append(out, objstore.Object{Key: packName(n).Path(), Size: packSize, Version: "e"})
	}
	return out, err
}

func (s *synthetic) Delete(ctx context.Context, key string) error {
	name, err := format.ParsePackPath(key)
	if err != nil {
		return s.Store.Delete(ctx, key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[name] = true
	return nil
}

// fill commits an archive that refers to nine of ten packs, by full maps whose digests do not compress.
func (s *synthetic) fill(b *testing.B, r *repository.Repository) {
	b.Helper()
	s.keys, s.raw = r.Keys(), make([]byte, codec.MaxBlock)
	_, _ = rand.Read(s.raw[:oneBlock])
	encoder, err := codec.NewEncoder(codec.ZstdFastest)
	require.NoError(b, err)
	id, packed := encoder.Encode(s.raw)
	require.Equal(b, codec.InZstd, id)
	s.packed = bytes.Clone(packed)
	digests := make([]byte, format.SegmentBlocks*32)
	var names []format.SegmentName
	m := make(format.Segment, 0, format.SegmentBlocks)
	flush := func() {
		name, err := r.PutSegment(b.Context(), m)
		require.NoError(b, err)
		names = append(names, name)
		m = m[:0]
	}
	used := s.packs * (100 - deadInHundred) / 100
	for n := range used {
		if len(m) == 0 {
			_, _ = rand.Read(digests)
		}
		ref := format.PackRef{Name: packName(n)}
		if s.mostlyUnused(n) {
			_, block, err := s.block(ref.Name)
			require.NoError(b, err)
			m = append(m, format.Place{State: format.Saved, Pack: ref, Block: block})
		}
		for i := range blocksInAPack {
			if s.mostlyUnused(n) || len(m) == format.SegmentBlocks {
				break
			}
			const length = packSize / blocksInAPack
			block := format.Block{Raw: codec.MaxBlock, Length: length, Offset: uint32(48 + i*length), Codec: codec.InZstd}
			copy(block.Digest[:], digests[len(m)*32:])
			m = append(m, format.Place{State: format.Saved, Pack: ref, Block: block})
		}
		if len(m) == format.SegmentBlocks {
			flush()
		}
	}
	last := int64(len(m))
	blocks := int64(len(names)) * format.SegmentBlocks
	if last > 0 {
		flush()
	}
	blocks += last
	require.NoError(b, r.Commit(b.Context(), "all", &format.Archive{
		Backup: "all", Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{{
			Role: "data", Size: blocks * codec.MaxBlock, Segments: names, Counts: format.Counts{Saved: blocks},
		}}}},
	}))
}

func (s *synthetic) mostlyUnused(n int) bool { return s.rewrites && n%mostlyUnused == 0 }

// floor is what a prune that moves so many blocks computes at least: it opens each map, and for those of moved blocks
// seals another one; and it opens, checks and seals each block.
func (s *synthetic) floor(b *testing.B, r *repository.Repository, moved int64) time.Duration {
	b.Helper()
	const maps, blocks = 8, 512
	a, err := r.Archive(b.Context(), "all")
	require.NoError(b, err)
	names := a.Stores[0].Volumes[0].Segments
	var of format.Segment
	began := cpu(b)
	for i := range maps {
		of, err = r.Segment(b.Context(), names[i%len(names)])
		require.NoError(b, err)
		if s.rewrites {
			_, _, err = of.SealUnique(s.keys)
			require.NoError(b, err)
		}
	}
	floor := (cpu(b) - began) / maps * time.Duration(len(names))
	if moved == 0 {
		return floor
	}
	text, block, err := s.block(packName(0))
	require.NoError(b, err)
	from, err := s.keys.Pack(format.PackRef{Name: packName(0)})
	require.NoError(b, err)
	sealed := text[block.Offset:][:block.Length]
	w, err := format.NewPackWriter(new(bytes.Buffer), s.keys, format.Source{}, packName(1))
	require.NoError(b, err)
	decoder, err := codec.NewDecoder()
	require.NoError(b, err)
	raw := make([]byte, codec.MaxBlock)
	began = cpu(b)
	for range blocks {
		packed, err := from.Open(nil, block, sealed)
		require.NoError(b, err)
		require.NoError(b, decoder.Decode(raw, block.Codec, packed))
		_, err = w.Add(format.Origin{}, sha256.Sum256(raw), len(raw), block.Codec, packed)
		require.NoError(b, err)
	}
	return floor + (cpu(b)-began)/blocks*time.Duration(moved)
}

// cpu is the process's time of processors so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the largest memory since the last reset, in bytes.
func peak(b *testing.B) int64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	require.NoError(b, err)
	return kib << 10
}

// BenchmarkRun_Fleet prunes a repository of TISNAP_BENCH_PACKS packs of 32 MiB, of which a tenth is garbage, without and
// with packs to rewrite, and prints a line of JSON for each. Set GOMEMLIMIT for the memory that it may take.
func BenchmarkRun_Fleet(b *testing.B) {
	packs := 10_000
	if text := os.Getenv("TISNAP_BENCH_PACKS"); text != "" {
		var err error
		packs, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	b.Run("delete", func(b *testing.B) { benchmarkFleet(b, packs, false) })
	b.Run("rewrite", func(b *testing.B) { benchmarkFleet(b, packs, true) })
}

func benchmarkFleet(b *testing.B, packs int, rewrites bool) {
	folder, err := objstore.Open(b.Context(), "file://"+b.TempDir(), objstore.Config{})
	require.NoError(b, err)
	s := &synthetic{Store: folder, packs: packs, rewrites: rewrites, gone: map[format.PackName]bool{}}
	r, _, err := archivetest.New(b.Context(), s, packSize)
	require.NoError(b, err)
	s.fill(b, r)
	options := now()
	if rewrites {
		options.MaxUnused = maxUnused
	}
	runtime.GC()
	require.NoError(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600)) // resets the peak
	for b.Loop() {
		began := cpu(b)
		report, err := prune.Run(b.Context(), r, options)
		require.NoError(b, err)
		took, memory := cpu(b)-began, peak(b)
		moved := report.Rewriting.Packs
		require.Equal(b, rewrites, moved > 0)
		require.Equal(b, rewrites, s.created.Load() > 0)
		require.EqualValues(b, int64(packs-packs*(100-deadInHundred)/100)+moved, report.Deleted.Packs)
		b.ReportMetric(took.Seconds(), "cpu-s/op")
		b.ReportMetric(float64(memory)/(1<<20), "peak-MiB")
		line, err := json.Marshal(map[string]any{
			"packs": packs, "tebibytes": float64(packs) * packSize / (1 << 40), "cpuSeconds": took.Seconds(),
			"floorCPUSeconds": s.floor(b, r, moved).Seconds(), "maxCPUSeconds": maxCPU.Seconds(),
			"peakMiB": memory >> 20, "maxMiB": maxMemory >> 20, "segments": report.Stored.Segments,
			"deleted": report.Deleted.Packs, "rewritten": moved,
		})
		require.NoError(b, err)
		_, _ = fmt.Fprintln(os.Stdout, string(line))
		if packs <= 1_000_000 {
			require.Less(b, took, maxCPU)
		}
		require.Less(b, memory, int64(maxMemory))
	}
}
