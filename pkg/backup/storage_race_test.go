package backup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/storage"
)

// overtaken is a storage to which another command gives an identity right before this one does.
type overtaken struct{ objstore.Store }

func (o overtaken) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if key == manifest.StorageKey {
		if _, err := storage.Open(ctx, o.Store, "another"); err != nil {
			return "", err
		}
	}
	return o.Store.Create(ctx, key, body)
}

// Whoever is slower takes the storage's identity, and nothing of the run carries the one that it had for a moment.
func TestRun_AnotherCommandGivesTheStorageItsIdentity_RunHasThatOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deps.Store = overtaken{r.store}
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.True(t, result.Sealed)
	stored, err := storage.Read(t.Context(), r.store)
	require.NoError(t, err)
	require.NotEmpty(t, stored.ID)
	records, err := journal.NewStoreJournal(r.store, manifest.JournalPrefix(o.Run)).Records(t.Context())
	require.NoError(t, err)
	about, err := journal.ReadAbout(o.Run, records[0])
	require.NoError(t, err)
	require.Equal(t, stored.ID, about.StorageID)
	snapshots, err := r.ebs.FindSnapshots(t.Context(), ebs.Tags{ebs.TagRun: string(o.Run)})
	require.NoError(t, err)
	require.Len(t, snapshots, 6)
	for _, s := range snapshots {
		require.Equal(t, stored.ID, s.Tags[ebs.TagStorage])
	}
}
