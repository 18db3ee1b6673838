package prune_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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
	packsInASegment = 1024 // of 64 blocks each
	packSize        = 32 << 20
	deadInHundred   = 10
	// What is allowed, of processors for a million packs, and of memory.
	maxCPU    = time.Minute
	maxMemory = 256 << 20
)

// synthetic is a storage that has the listing of very many packs, and nothing in them.
type synthetic struct {
	objstore.Store
	packs int
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
	for n := int(first); n < s.packs; n += 256 {
		out = append(out, objstore.Object{Key: packName(n).Path(), Size: packSize, Version: "e"})
	}
	return out, err
}

func (s *synthetic) Delete(ctx context.Context, key string) error {
	if strings.HasPrefix(key, format.PackPrefix) {
		return nil
	}
	return s.Store.Delete(ctx, key)
}

// fill commits an archive that refers to nine of ten packs, by full maps whose digests do not compress.
func (s *synthetic) fill(b *testing.B, r *repository.Repository) {
	b.Helper()
	var names []format.SegmentName
	used := s.packs * (100 - deadInHundred) / 100
	digests := make([]byte, format.SegmentBlocks*32)
	for first := 0; first < used; first += packsInASegment {
		_, _ = rand.Read(digests)
		m := make(format.Segment, format.SegmentBlocks)
		for i := range m {
			const length = packSize / 64
			block := format.Block{Raw: codec.MaxBlock, Length: length, Offset: uint32(48 + i%64*length), Codec: codec.InZstd}
			copy(block.Digest[:], digests[i*32:])
			ref := format.PackRef{Name: packName(min(first+i/64, used-1))}
			m[i] = format.Place{State: format.Saved, Pack: ref, Block: block}
		}
		name, err := r.PutSegment(b.Context(), m)
		require.NoError(b, err)
		names = append(names, name)
	}
	blocks := int64(len(names)) * format.SegmentBlocks
	require.NoError(b, r.Commit(b.Context(), "all", &format.Archive{
		Backup: "all", Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{{
			Role: "data", Size: blocks * codec.MaxBlock, Segments: names, Counts: format.Counts{Saved: blocks},
		}}}},
	}))
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

// BenchmarkRun_Fleet prunes a repository of TISNAP_BENCH_PACKS packs of 32 MiB, of which a tenth is garbage, and prints
// a line of JSON. Set GOMEMLIMIT for the memory that it may take.
func BenchmarkRun_Fleet(b *testing.B) {
	packs := 10_000
	if text := os.Getenv("TISNAP_BENCH_PACKS"); text != "" {
		var err error
		packs, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	folder, err := objstore.Open(b.Context(), "file://"+b.TempDir(), objstore.Config{})
	require.NoError(b, err)
	s := &synthetic{Store: folder, packs: packs}
	r, _, err := archivetest.New(b.Context(), s, packSize)
	require.NoError(b, err)
	s.fill(b, r)
	runtime.GC()
	require.NoError(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600)) // resets the peak
	for b.Loop() {
		began := cpu(b)
		report, err := prune.Run(b.Context(), r, now())
		require.NoError(b, err)
		took, memory := cpu(b)-began, peak(b)
		require.EqualValues(b, packs-packs*(100-deadInHundred)/100, report.Deleted.Packs)
		b.ReportMetric(took.Seconds(), "cpu-s/op")
		b.ReportMetric(float64(memory)/(1<<20), "peak-MiB")
		line, err := json.Marshal(map[string]any{
			"packs": packs, "tebibytes": float64(packs) * packSize / (1 << 40), "cpuSeconds": took.Seconds(),
			"peakMiB": memory >> 20, "segments": report.Stored.Segments, "deleted": report.Deleted.Packs,
		})
		require.NoError(b, err)
		_, _ = fmt.Fprintln(os.Stdout, string(line))
		if packs <= 1_000_000 {
			require.Less(b, took, maxCPU)
		}
		require.Less(b, memory, int64(maxMemory))
	}
}
