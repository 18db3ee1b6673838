package verify_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// newLocked is a repository with the archive "one", of one volume, in a bucket with Object Lock.
func newLocked(t *testing.T) (*lab, objstore.Store) {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	server := objstoretest.New(objstoretest.Config{})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	server.CreateBucket("locked")
	server.LockBucket("locked")
	store, err := objstore.Open(t.Context(), "s3://locked/a", objstore.Config{Region: "us-west-2", Endpoint: server.URL()})
	require.NoError(t, err)
	t.Cleanup(store.(interface{ Close() }).Close)
	l := &lab{}
	l.Repository, _, err = archivetest.NewWith(t.Context(), store, format.Settings{
		PackSize: 4 * volume.BlockSize, Storage: format.Storage{ObjectLock: true},
		Retention: format.Retention{Mode: objstore.RetainGovernance, Days: 1},
	})
	require.NoError(t, err)
	require.NoError(t, l.Commit(t.Context(), "one", &format.Archive{
		Backup: "one", Manifest: format.NewManifest([]byte("one")),
		Stores: []format.Store{{ID: 1, Volumes: []format.Volume{l.archive(t, 1)}}},
	}))
	return l, store
}

// Whatever someone deletes or overwrites in a bucket with Object Lock is named, and read nevertheless.
func TestRun_HiddenObjects_AreNamedAndRead(t *testing.T) {
	l, store := newLocked(t)
	a, err := l.Archive(t.Context(), "one")
	require.NoError(t, err)
	name := a.Stores[0].Volumes[0].Segments[0]
	s, err := l.Segment(t.Context(), name)
	require.NoError(t, err)
	deleted, overwritten := s[0].Pack.Name.Path(), s[4].Pack.Name.Path()
	require.NotEqual(t, deleted, overwritten)
	for _, key := range []string{deleted, name.Path(), "archives/one"} {
		require.NoError(t, store.Delete(t.Context(), key))
	}
	pack, version, err := store.Get(t.Context(), overwritten)
	require.NoError(t, err)
	pack[100] ^= 1
	_, err = store.Replace(t.Context(), overwritten, pack, version)
	require.NoError(t, err)

	ids, err := l.Archives(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, ids)
	found, err := verify.Run(t.Context(), l.Repository, verify.Options{Archives: ids, Level: verify.Data, Sample: 1, Reads: 2})
	require.NoError(t, err)
	var objects []string
	for _, f := range found.Findings {
		require.Contains(t, f.Problem, "someone has deleted or overwritten it")
		objects = append(objects, f.Object)
	}
	require.ElementsMatch(t, []string{deleted, overwritten, name.Path(), "archives/one"}, objects)
	again, err := l.Archive(t.Context(), "one")
	require.NoError(t, err)
	require.Equal(t, a, again)
	requireWhole(t, l.Repository, name)

	r, err := prune.Run(t.Context(), l.Repository, prune.Options{MaxUnused: 1})
	require.NoError(t, err)
	require.Equal(t, 1, r.Archives)
	require.Zero(t, r.Garbage)
	require.Zero(t, r.Locked)
	require.NoError(t, prune.Forget(t.Context(), l.Repository, "one"))
	ids, err = l.Archives(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids)
}

// What is hidden and damaged, too, is not found to be whole: its bytes are read.
func TestRun_HiddenAndDamaged_IsFound(t *testing.T) {
	l, store := newLocked(t)
	a, err := l.Archive(t.Context(), "one")
	require.NoError(t, err)
	s, err := l.Segment(t.Context(), a.Stores[0].Volumes[0].Segments[0])
	require.NoError(t, err)
	name := format.NewPackName()
	key := name.Path()
	for i := range 4 { // what is at its places is no block of it
		s[i].Pack.Name = name
	}
	pack := make([]byte, s[3].Block.Offset+s[3].Block.Length)
	_, err = store.Create(t.Context(), key, pack)
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), key))
	a.Stores[0].Volumes[0].Segments[0], err = l.PutSegment(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, l.Commit(t.Context(), "two", a))
	for level, want := range map[verify.Level][]verify.Range{
		verify.Objects: nil, verify.Headers: nil, verify.Data: {{First: 0, Last: 3}},
	} {
		found, err := verify.Run(t.Context(), l.Repository, verify.Options{
			Archives: []string{"two"}, Level: level, Sample: 1, Reads: 2,
		})
		require.NoError(t, err)
		var damaged []verify.Range
		for _, f := range found.Findings {
			require.Equal(t, key, f.Object)
			if !strings.Contains(f.Problem, "someone has deleted") {
				damaged = append(damaged, f.Blocks...)
			}
		}
		require.Equal(t, want, damaged, level)
	}
}

func requireWhole(t *testing.T, r *repository.Repository, name format.SegmentName) {
	t.Helper()
	s, err := r.Segment(t.Context(), name)
	require.NoError(t, err)
	n := 0
	require.NoError(t, r.ReadBlocks(t.Context(), s, 1, func(_ context.Context, _ int, _ []byte, lost error) error {
		n++
		return lost
	}))
	require.Equal(t, blocks, n)
}
