package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// blocks is how many blocks each volume of the tests has: in a pack of four, one of the rest, and the last one is short.
const blocks = 6

// lab is a repository with the archives "one" and "two", of two volumes each.
type lab struct {
	*repository.Repository
	store *objstoretest.Memory
}

func newLab(t *testing.T, plan *fault.Plan) *lab {
	t.Helper()
	l := &lab{store: objstoretest.NewMemory(plan)}
	var err error
	l.Repository, _, err = archivetest.New(t.Context(), l.store, 4*volume.BlockSize)
	require.NoError(t, err)
	for n, id := range []string{"one", "two"} {
		a := &format.Archive{Backup: id, Manifest: format.NewManifest([]byte(id))}
		for store := range 2 {
			v := l.archive(t, byte(10*n+store))
			a.Stores = append(a.Stores, format.Store{ID: uint64(store + 1), Volumes: []format.Volume{v}})
		}
		require.NoError(t, l.Commit(t.Context(), id, a))
	}
	return l
}

// archive archives a volume of random blocks.
func (l *lab) archive(t *testing.T, seed byte) format.Volume {
	t.Helper()
	data := make([]byte, (blocks-1)*volume.BlockSize+1000)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	packing := l.Pack(t.Context(), repository.PackOptions{Names: format.NewPackNames(), Packers: 1, Way: repository.Way{Uploads: 1}})
	archiver, err := volume.NewArchiver(l.Repository, packing, 1, 1)
	require.NoError(t, err)
	v, _, err := archiver.Archive(t.Context(), volume.Task{
		Source: &volume.Image{Bytes: int64(len(data)), From: bytes.NewReader(data)},
	})
	require.NoError(t, err)
	require.NoError(t, archiver.Flush())
	require.NoError(t, packing.Wait())
	v.Role = "data"
	return v
}

// volume is that of store 1 in archive one, whose blocks 0 to 3 are in the first pack of its map.
func (l *lab) volume(t *testing.T) (format.Volume, format.Segment) {
	t.Helper()
	a, err := l.Archive(t.Context(), "one")
	require.NoError(t, err)
	v := a.Stores[0].Volumes[0]
	s, err := l.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	require.Equal(t, s[0].Pack, s[3].Pack)
	require.NotEqual(t, s[0].Pack, s[4].Pack)
	return v, s
}

// keys are of one object of each kind, all of store 1 in archive one; the archive itself is of store 2, too.
func (l *lab) keys(t *testing.T) map[string]string {
	t.Helper()
	v, s := l.volume(t)
	return map[string]string{"archive": "archives/one", "segment": v.Segments[0].Path(), "pack": s[0].Pack.Name.Path()}
}

func (l *lab) get(t *testing.T, key string) []byte {
	t.Helper()
	object, _, err := l.store.Get(t.Context(), key)
	require.NoError(t, err)
	return object
}

// put replaces an object; nil deletes it.
func (l *lab) put(t *testing.T, key string, object []byte) {
	t.Helper()
	require.NoError(t, l.store.Delete(t.Context(), key))
	if object != nil {
		_, err := l.store.Create(t.Context(), key, object)
		require.NoError(t, err)
	}
}

func (l *lab) verify(t *testing.T, level verify.Level) []verify.Finding {
	t.Helper()
	result, err := verify.Run(t.Context(), l.Repository, verify.Options{
		Archives: []string{"one", "two"}, Level: level, Sample: 1, Reads: 2,
	})
	require.NoError(t, err)
	return result.Findings
}

func TestRun_SoundRepository_FindsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	for level, want := range map[verify.Level]int64{verify.Objects: 0, verify.Headers: 0, verify.Data: 4 * blocks} {
		var done, total int64
		result, err := verify.Run(t.Context(), l.Repository, verify.Options{
			Archives: []string{"one", "two"}, Level: level, Sample: 1, Reads: 2,
			Progress: func(d, of int64) { done, total = d, of },
		})
		require.NoError(t, err)
		whole := map[string]format.Digest{}
		for _, id := range []string{"one", "two"} {
			a, err := l.Archive(t.Context(), id)
			require.NoError(t, err)
			whole[id] = a.Maps()
		}
		require.Equal(t, &verify.Result{
			Archives: 2, Segments: 4, Blocks: want, Findings: []verify.Finding{}, Whole: whole,
		}, result, level)
		require.Equal(t, [2]int64{4, 4}, [2]int64{done, total})
	}
}

// Each kind of object is damaged in each way. Data finds all; the archive, the volume and the blocks are named.
func TestRun_AnyDamage_IsFoundAndNamed(t *testing.T) {
	t.Parallel()
	l, foreign := newLab(t, nil), newLab(t, nil)
	strange := foreign.keys(t)
	other, err := l.Archive(t.Context(), "two")
	require.NoError(t, err)
	otherMap, err := l.Segment(t.Context(), other.Stores[0].Volumes[0].Segments[0])
	require.NoError(t, err)
	swapped := map[string]string{
		"archive": "archives/two", "segment": other.Stores[0].Volumes[0].Segments[0].Path(),
		"pack": otherMap[0].Pack.Name.Path(),
	}
	for kind, key := range l.keys(t) {
		whole := l.get(t, key)
		ways := map[string][]byte{
			"missing": nil, "empty": {}, "cut by a byte": whole[:len(whole)-1], "cut in half": whole[:len(whole)/2],
			"longer": append(slices.Clone(whole), 0), "swapped": l.get(t, swapped[kind]),
			"of another repository": foreign.get(t, strange[kind]), "zeros": make([]byte, len(whole)),
		}
		for _, at := range []int{0, 7, 8, 24, 31, 32, len(whole) / 3, len(whole) - 20, len(whole) - 1} {
			bad := slices.Clone(whole)
			bad[at] ^= 16
			ways[fmt.Sprintf("a bit of byte %d", at)] = bad
		}
		for way, object := range ways {
			l.put(t, key, object)
			requireNamed(t, l.verify(t, verify.Data), kind, key, way)
		}
		l.put(t, key, whole)
		require.Empty(t, l.verify(t, verify.Data), "it is as it was")
	}
}

// requireNamed makes sure that the findings are of the one object, and of what it hits.
func requireNamed(t *testing.T, found []verify.Finding, kind, key, way string) {
	t.Helper()
	require.Len(t, found, 1, "%s: %s", kind, way)
	f := found[0]
	require.Equal(t, "one", f.Archive, "%s: %s", kind, way)
	require.Equal(t, key, f.Object, "%s: %s", kind, way)
	require.NotEmpty(t, f.Problem)
	if kind == "archive" {
		require.Zero(t, f.Store)
		return
	}
	require.EqualValues(t, 1, f.Store)
	require.Equal(t, "data", f.Role)
	require.NotEmpty(t, f.Blocks, "%s: %s", kind, way)
	last := int64(3) // of the pack
	if kind == "segment" {
		last = blocks - 1
		require.Equal(t, []verify.Range{{First: 0, Last: last}}, f.Blocks, way)
	}
	for _, r := range f.Blocks {
		require.LessOrEqual(t, r.Last, last, "%s: %s", kind, way)
	}
}

// A flipped bit loses one block, and no other.
func TestRun_FlippedBit_IsOfOneBlock(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	_, s := l.volume(t)
	key := s[2].Pack.Name.Path()
	pack := l.get(t, key)
	pack[s[2].Block.Offset+5] ^= 1
	l.put(t, key, pack)
	require.Empty(t, l.verify(t, verify.Headers), "blocks are not read")
	found := l.verify(t, verify.Data)
	require.Len(t, found, 1)
	require.Equal(t, []verify.Range{{First: 2, Last: 2}}, found[0].Blocks)
}

// The levels find what they promise: each one what the one before does not.
func TestRun_Levels(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	_, s := l.volume(t)
	key := s[0].Pack.Name.Path()
	whole := l.get(t, key)
	trailer := slices.Clone(whole)
	trailer[len(trailer)-20] ^= 1
	l.put(t, key, trailer)
	require.Empty(t, l.verify(t, verify.Objects))
	require.Equal(t, []verify.Range{{First: 0, Last: 3}}, l.verify(t, verify.Headers)[0].Blocks)
	l.put(t, key, whole[:s[3].Block.Offset+1])
	require.Equal(t, []verify.Range{{First: 3, Last: 3}}, l.verify(t, verify.Objects)[0].Blocks)
	l.put(t, key, nil)
	require.Equal(t, []verify.Range{{First: 0, Last: 3}}, l.verify(t, verify.Objects)[0].Blocks)
}

// A map that is right in itself is not one that its archive does not mean.
func TestRun_MapOfAnotherVolume_IsFound(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	one, err := l.Archive(t.Context(), "one")
	require.NoError(t, err)
	one.Stores[0].Volumes[0].Segments = one.Stores[1].Volumes[0].Segments
	require.NoError(t, l.Commit(t.Context(), "three", one))
	result, err := verify.Run(t.Context(), l.Repository, verify.Options{Archives: []string{"three"}, Level: verify.Objects})
	require.NoError(t, err)
	require.Len(t, result.Findings, 1)
	require.Equal(t, "archives/three", result.Findings[0].Object)
	require.EqualValues(t, 1, result.Findings[0].Store)
}

func TestRun_Sample_ReadsAPart(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	result, err := verify.Run(t.Context(), l.Repository, verify.Options{
		Archives: []string{"one", "two"}, Level: verify.Data, Sample: 0.5, Reads: 2,
	})
	require.NoError(t, err)
	require.Positive(t, result.Blocks)
	require.Less(t, result.Blocks, int64(4*blocks))
}

// A storage that cannot be asked is no damage, and no success.
func TestRun_StorageFails_IsTheError(t *testing.T) {
	t.Parallel()
	plan := &fault.Plan{}
	l := newLab(t, plan)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.GetObject", Code: "AccessDenied", Times: -1}))
	_, err := verify.Run(t.Context(), l.Repository, verify.Options{Archives: []string{"one"}, Level: verify.Data, Sample: 1})
	require.ErrorContains(t, err, "AccessDenied")
	require.False(t, failure.Is(err, failure.Corrupt), "%v", err)
}

// rewriting is a store of which a prune rewrites all before an archive is read.
type rewriting struct {
	objstore.Store
	first func()
}

func (r *rewriting) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	if r.first != nil && key == format.ArchivePrefix+"one" {
		do := r.first
		r.first = nil
		do()
	}
	return r.Store.Get(ctx, key)
}

// An archive that a prune rewrites at that moment is as sound as before: its new packs are looked for, too.
func TestRun_ArchiveIsRewrittenMeanwhile_IsSound(t *testing.T) {
	t.Parallel()
	l := &lab{store: objstoretest.NewMemory(nil)}
	store := &rewriting{Store: l.store}
	var err error
	l.Repository, _, err = archivetest.New(t.Context(), store, 4*volume.BlockSize)
	require.NoError(t, err)
	v := l.archive(t, 1)
	s, err := l.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	s[0], s[1], s[2] = format.Place{}, format.Place{}, format.Place{}
	v.Counts.Saved -= 3
	sum := format.NewChecksum()
	for _, place := range s[3:] {
		sum.Add(place.Block.Digest)
	}
	v.Checksum = sum.Sum()
	v.Segments[0], err = l.PutSegment(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, l.Commit(t.Context(), "one", &format.Archive{
		Backup: "one", Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{v}}},
	}))
	store.first = func() {
		report, err := prune.Run(t.Context(), l.Repository, prune.Options{BreakAfter: -1})
		require.NoError(t, err)
		require.Equal(t, 1, report.Rewriting.Archives)
	}
	result, err := verify.Run(t.Context(), l.Repository, verify.Options{
		Archives: []string{"one"}, Level: verify.Data, Sample: 1, Reads: 2,
	})
	require.NoError(t, err)
	require.Empty(t, result.Findings)
	require.EqualValues(t, 3, result.Blocks)
	require.Nil(t, store.first)
}
