package repository_test

import (
	"context"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// hiddenRepository has an archive "a", whose object, map and pack someone has deleted: Object Lock has kept them.
func hiddenRepository(t *testing.T, faults *fault.Plan) (*repository.Repository, objstore.Store, format.Segment, format.SegmentName) {
	t.Helper()
	store, _ := lockedStore(t, faults)
	r, _, err := archivetest.NewWith(t.Context(), store, format.Settings{PackSize: 2 << 20, Storage: format.Storage{ObjectLock: true}})
	require.NoError(t, err)
	packing := r.Pack(t.Context(), repository.PackOptions{Names: format.NewPackNames(), Packers: 1, Way: repository.Way{Uploads: 1}})
	p, err := packing.Packer()
	require.NoError(t, err)
	place, err := p.Add(format.Origin{}, sha256.Sum256([]byte("a block")), []byte("a block"))
	require.NoError(t, err)
	require.NoError(t, p.Flush())
	require.NoError(t, packing.Wait())
	name, err := r.PutSegment(t.Context(), format.Segment{place})
	require.NoError(t, err)
	require.NoError(t, r.Commit(t.Context(), "a", &format.Archive{Backup: "b", Manifest: format.NewManifest([]byte("m"))}))
	for _, key := range []string{"archives/a", name.Path(), place.Pack.Name.Path()} {
		require.NoError(t, store.Delete(t.Context(), key))
	}
	return r, store, format.Segment{place}, name
}

// It is unknown whether something was deleted while its versions cannot be listed, or read. That is an error, and not
// damage, unless it is not permitted: a restore need not have that permission.
func TestHidden_VersionsCannotBeRead_IsNoDamage(t *testing.T) {
	faults := &fault.Plan{}
	r, store, s, name := hiddenRepository(t, faults)
	pack := func(ctx context.Context) error {
		return r.ReadBlocks(ctx, s, 1, func(_ context.Context, _ int, _ []byte, lost error) error { return lost })
	}
	for _, row := range []struct {
		name   string
		before func() error
		read   func(context.Context) error
	}{
		{"archive", nil, func(ctx context.Context) error { _, err := r.Archive(ctx, "a"); return err }},
		{"map", nil, func(ctx context.Context) error { _, err := r.Segment(ctx, name); return err }},
		{"pack", nil, pack},
		{"overwritten pack", func() error {
			_, err := store.Create(t.Context(), s[0].Pack.Name.Path(), make([]byte, 1<<10))
			return err
		}, pack},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.before != nil {
				require.NoError(t, row.before())
			}
			require.NoError(t, row.read(t.Context()))
			for _, rule := range []fault.Rule{
				{Point: "s3.ListObjectVersions", Code: "InvalidArgument"}, {Point: "s3.GetObject", Nth: 2, Code: "InvalidArgument"},
			} {
				faults.Clear()
				require.NoError(t, faults.Add(rule))
				require.Equal(t, failure.Usage, failure.KindOf(row.read(t.Context())), rule.Point)
			}
			faults.Clear()
			require.NoError(t, faults.Add(fault.Rule{Point: "s3.ListObjectVersions", Code: "AccessDenied"}))
			kind := failure.KindOf(row.read(t.Context()))
			require.Contains(t, []failure.Kind{failure.NotFound, failure.Corrupt}, kind)
			faults.Clear()
		})
	}
}

// An archive that someone has deleted can be replaced, and is there again; one that was forgotten stays so.
func TestRecommit_Hidden_IsThereAgain(t *testing.T) {
	r, store, _, _ := hiddenRepository(t, nil)
	a, version, err := r.ArchiveVersion(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, r.SealAgain(t.Context()))
	_, sealed, err := store.Get(t.Context(), "archives/a")
	require.NoError(t, err)
	require.NotEqual(t, version, sealed)
	require.NoError(t, store.Delete(t.Context(), "archives/a"))
	_, err = r.Recommit(t.Context(), "a", a, version)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	_, err = store.Create(t.Context(), "archives/a", []byte(format.Tombstone))
	require.NoError(t, err)
	_, err = r.Recommit(t.Context(), "a", a, sealed)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
}
