package repository_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// lab is a repository in memory, with the reads of ranges counted.
type lab struct {
	*repository.Repository
	store *counted
	owner age.Identity
}

type counted struct {
	*objstoretest.Memory
	mu     sync.Mutex
	ranges []int64
	gate   chan struct{} // each read waits for it, unless it is nil
}

func (c *counted) GetRange(ctx context.Context, key string, offset int64, into []byte) error {
	c.mu.Lock()
	c.ranges = append(c.ranges, int64(len(into)))
	c.mu.Unlock()
	if c.gate != nil {
		<-c.gate
	}
	return c.Memory.GetRange(ctx, key, offset, into)
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabWith(t, nil)
}

func newLabWith(t *testing.T, plan *fault.Plan) *lab {
	t.Helper()
	store := &counted{Memory: objstoretest.NewMemory(plan)}
	r, owner, err := archivetest.New(t.Context(), store, 2<<20)
	require.NoError(t, err)
	return &lab{r, store, owner}
}

// blocks are incompressible, and the last one is short.
func blocks(n int) [][]byte {
	random := rand.NewChaCha8([32]byte{byte(n)})
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, codec.MaxBlock)
		_, _ = random.Read(out[i])
	}
	out[n-1] = out[n-1][:1000]
	return out
}

// put writes the blocks in packs of so many, and returns their map: before each pack comes a block of zeros.
func (l *lab) put(t *testing.T, all [][]byte, perPack int) (s format.Segment) {
	t.Helper()
	for part := range slices.Chunk(all, perPack) {
		s = append(s, format.Place{State: format.Zero})
		var out bytes.Buffer
		w, err := format.NewPackWriter(&out, l.Keys(), format.Source{Archive: "nightly"}, format.NewPackName())
		require.NoError(t, err)
		for _, raw := range part {
			b, err := w.Add(format.Origin{}, sha256.Sum256(raw), len(raw), codec.Stored, raw)
			require.NoError(t, err)
			s = append(s, format.Place{State: format.Saved, Pack: w.Ref(), Block: b})
		}
		require.NoError(t, w.Close())
		require.NoError(t, l.PutPack(t.Context(), w.Ref().Name, out.Bytes()))
	}
	return s
}

// read returns the blocks of a segment by their index.
func (l *lab) read(t *testing.T, s format.Segment) (map[int][]byte, error) {
	t.Helper()
	var mu sync.Mutex
	got := map[int][]byte{}
	var lost error
	err := l.ReadBlocks(t.Context(), s, 4, func(_ context.Context, index int, block []byte, why error) error {
		mu.Lock()
		defer mu.Unlock()
		if why != nil {
			lost = why
			return nil
		}
		got[index] = bytes.Clone(block)
		return nil
	})
	return got, cmp.Or(err, lost)
}

func TestRepository_ArchiveOfAVolume_IsGivenBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := blocks(40)
	s := l.put(t, all, 20)
	name, err := l.PutSegment(t.Context(), s)
	require.NoError(t, err)
	again, err := l.PutSegment(t.Context(), s)
	require.NoError(t, err)
	require.NotEqual(t, name, again, "a late prune of one must not hit the other")
	archive := &format.Archive{Backup: "nightly", Manifest: format.NewManifest(nil), Stores: []format.Store{{
		ID: 1, Volumes: []format.Volume{{
			Role: "data", Size: int64(len(s)-1)*codec.MaxBlock + 1000, Segments: []format.SegmentName{name},
			Counts: format.Counts{Saved: 40, Zero: 2},
		}},
	}}}
	require.NoError(t, l.Commit(t.Context(), "nightly-1", archive))
	require.True(t, failure.Is(l.Commit(t.Context(), "nightly-1", archive), failure.Conflict), "no archive is replaced")

	other, err := repository.Open(t.Context(), l.store, l.owner)
	require.NoError(t, err)
	require.Equal(t, l.ID(), other.ID())
	ids, err := other.Archives(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"nightly-1"}, ids)
	read, err := other.Archive(t.Context(), "nightly-1")
	require.NoError(t, err)
	found, err := other.Segment(t.Context(), read.Stores[0].Volumes[0].Segments[0])
	require.NoError(t, err)
	l.Repository = other
	got, err := l.read(t, found)
	require.NoError(t, err)
	require.Len(t, got, len(all))
	for i, index := range slices.Sorted(maps.Keys(got)) {
		require.True(t, bytes.Equal(all[i], got[index]), "block %d", i)
	}
}

// A restore makes few requests: a range has all blocks that follow each other, up to 16 that nothing compresses.
func TestReadBlocks_ConsecutiveBlocks_AreOneRequest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.put(t, blocks(40), 20)
	_, err := l.read(t, s)
	require.NoError(t, err)
	require.Len(t, l.store.ranges, 4, "two for each pack of 10 MiB")
	require.EqualValues(t, 16*format.MaxSealed, slices.Max(l.store.ranges), "blocks that are read together stay together")
	l.store.ranges = nil
	_, err = l.read(t, slices.Concat(s[1:3], s[18:20])) // the blocks between are farther than a read in vain pays
	require.NoError(t, err)
	require.Len(t, l.store.ranges, 2)
}

func TestReadBlocks_Damage_IsNeverGivenBack(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		damage func(pack []byte) []byte // nil: it is deleted
		left   int
	}{
		"a flipped bit":      {func(pack []byte) []byte { pack[3*codec.MaxBlock-1] ^= 1; return pack }, 3},
		"truncated":          {func(pack []byte) []byte { return pack[:3*codec.MaxBlock] }, 2},
		"another repository": {func(pack []byte) []byte { return make([]byte, len(pack)) }, 0},
		"missing":            {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			all := blocks(4)
			s := l.put(t, all, 4)
			key := s[1].Pack.Name.Path()
			pack, version, err := l.store.Get(t.Context(), key)
			require.NoError(t, err)
			if row.damage == nil {
				err = l.store.Delete(t.Context(), key)
			} else {
				_, err = l.store.Replace(t.Context(), key, row.damage(pack), version)
			}
			require.NoError(t, err)
			got, err := l.read(t, s)
			require.Len(t, got, row.left, "the others are given back")
			require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
			require.ErrorContains(t, err, s[1].Pack.Name.String(), "it is named")
			for index, block := range got {
				require.True(t, bytes.Equal(all[index-1], block), "block %d is not what was written", index)
			}
		})
	}
}

// A forgotten archive is not listed or read, and its id is not used again.
func TestArchive_Tombstone_IsNone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	archive := &format.Archive{Backup: "nightly", Manifest: format.NewManifest(nil)}
	require.NoError(t, l.Commit(t.Context(), "kept", archive))
	_, err := l.store.Create(t.Context(), format.ArchivePrefix+"gone", []byte(format.Tombstone))
	require.NoError(t, err)
	ids, err := l.Archives(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"kept"}, ids)
	_, err = l.Archive(t.Context(), "gone")
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	require.True(t, failure.Is(l.Commit(t.Context(), "gone", archive), failure.Conflict))
}

func TestInitAndOpen_WrongStorageOrKey_AreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, _, err := archivetest.New(t.Context(), l.store, 2<<20)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	stranger, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	_, err = repository.Open(t.Context(), l.store, stranger)
	require.True(t, failure.Is(err, failure.Denied), "%v", err)
	_, err = repository.Open(t.Context(), objstoretest.NewMemory(nil), l.owner)
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
	_, err = repository.Open(t.Context(), l.store, l.owner)
	require.NoError(t, err, "it is as it was")
}

func TestReadBlocks_UseFails_IsTheError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.put(t, blocks(40), 20)
	full := errors.New("the disk is full")
	calls := 0
	err := l.ReadBlocks(t.Context(), s, 1, func(context.Context, int, []byte, error) error { calls++; return full })
	require.Equal(t, full, err)
	require.Equal(t, 1, calls, "the others are not read")
	require.Len(t, l.store.ranges, 1)
}

// What is read is used while the next is read, by no more reads than are allowed, and so much memory.
func TestReadBlocks_UseTakesLong_OthersAreReadMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.put(t, blocks(8), 1)
	synctest.Test(t, func(t *testing.T) {
		const limit = 2
		reads, uses := make(chan struct{}), make(chan struct{})
		l.store.gate = reads
		var used atomic.Int64
		done := make(chan error, 1)
		go func() {
			done <- l.ReadBlocks(t.Context(), s, limit, func(context.Context, int, []byte, error) error {
				used.Add(1)
				<-uses
				return nil
			})
		}()
		synctest.Wait()
		require.Len(t, l.store.ranges, limit)
		reads <- struct{}{}
		reads <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, limit, used.Load())
		require.Len(t, l.store.ranges, limit+limit/2, "the next one is read")
		reads <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, limit+limit/2, used.Load())
		require.Len(t, l.store.ranges, limit+limit/2, "there is no memory for a fourth")
		close(reads)
		close(uses)
		require.NoError(t, <-done)
		require.Len(t, l.store.ranges, 8)
	})
}
