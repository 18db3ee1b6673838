package catalog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// suspended is the storage of a process that is suspended right before its nth call, while others do something.
type suspended struct {
	objstore.Store
	nth    int // counts down
	others func()
}

func (s *suspended) asked() {
	if s.nth--; s.nth == 0 {
		s.others()
	}
}

func (s *suspended) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	s.asked()
	return s.Store.Get(ctx, key)
}

func (s *suspended) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	s.asked()
	return s.Store.List(ctx, prefix)
}

func (s *suspended) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	s.asked()
	return s.Store.Create(ctx, key, body)
}

func (s *suspended) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	s.asked()
	return s.Store.Replace(ctx, key, body, old)
}

func (s *suspended) Delete(ctx context.Context, key string) error {
	s.asked()
	return s.Store.Delete(ctx, key)
}

func (s *suspended) DeleteVersion(ctx context.Context, key string, old objstore.Version) error {
	s.asked()
	return s.Store.DeleteVersion(ctx, key, old)
}

// madeBy makes a sealed backup of the run. As in any storage, no object of it is also one of another run's.
func madeBy(t *testing.T, c catalog.Catalog, id cluster.BackupID, run cluster.RunID) {
	t.Helper()
	require.NoError(t, c.Claim(t.Context(), claimOf(id, run)))
	m := sample(id)
	m.Run = run
	m.BackupTS += cluster.TS(run[0])
	require.NoError(t, c.PutManifest(t.Context(), m))
	require.NoError(t, c.PutForBR(t.Context(), m))
	require.NoError(t, c.LockForBR(t.Context(), claimOf(id, run)))
	require.NoError(t, c.Seal(t.Context(), id, created, 0))
	_, err := c.Store.Create(t.Context(), manifest.BackupPrefix(id)+"stray", fmt.Append(nil, run))
	require.NoError(t, err)
}

// Of two removals of the same backup, one is suspended before one of its calls. Meanwhile the other one is done, and the next
// backup of that name is taken: it stays as it is, whichever call it was.
func TestRemove_SuspendedUntilTheNameIsUsedAgain_TouchesNothingOfTheNextBackup(t *testing.T) {
	t.Parallel()
	for _, run := range []cluster.RunID{"run-1", ""} {
		for nth := 1; ; nth++ {
			c, store := newCatalog(t)
			madeBy(t, c, "b1", "run-1")
			require.NoError(t, c.Bury(t.Context(), "b1", "run-1", "deleted", false))
			slow := &suspended{Store: c.Store, nth: nth, others: func() {
				require.NoError(t, c.Remove(t.Context(), "b1", "run-1"))
				madeBy(t, c, "b1", "later")
			}}
			err := catalog.Catalog{Store: slow}.Remove(t.Context(), "b1", run)
			if slow.nth > 0 { // it has no such call
				require.NoError(t, err)
				require.Greater(t, nth, 10)
				break
			}
			m, loadErr := c.Load(t.Context(), "b1")
			require.NoError(t, loadErr, "call %d, which ended with %v", nth, err)
			require.Equal(t, cluster.RunID("later"), m.Run)
			left, listErr := store.List(t.Context(), "")
			require.NoError(t, listErr)
			require.Len(t, left, 7, "call %d: %v", nth, left)
		}
	}
}

// The checks before a deletion were of a backup that is gone; the one that has its name now was not checked.
func TestBury_NameIsUsedAgain_StaysAsItIs(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t)
	madeBy(t, c, "sealed", "later")
	err := c.Bury(t.Context(), "sealed", "run-1", "deleted", false)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "of run later, not run-1")
	_, err = c.Load(t.Context(), "sealed")
	require.NoError(t, err)
	require.NoError(t, c.Bury(t.Context(), "sealed", "later", "deleted", false))

	c, _ = newCatalog(t)
	require.NoError(t, c.Claim(t.Context(), claimOf("unsealed", "later")))
	require.Equal(t, failure.Conflict, failure.KindOf(c.Bury(t.Context(), "unsealed", "run-1", "its run died", true)))
	buried, err := c.Buried(t.Context(), "unsealed")
	require.NoError(t, err)
	require.False(t, buried)
	require.NoError(t, c.Bury(t.Context(), "unsealed", "later", "its run died", true))
}

// The next backup of that name is on its way out, too: its snapshots are found by its manifest until they are deleted.
func TestRemove_SuspendedUntilTheNextBackupIsBuried_TouchesNothingOfIt(t *testing.T) {
	t.Parallel()
	for nth := 1; ; nth++ {
		c, store := newCatalog(t)
		madeBy(t, c, "b1", "run-1")
		require.NoError(t, c.Bury(t.Context(), "b1", "run-1", "deleted", false))
		slow := &suspended{Store: c.Store, nth: nth, others: func() {
			require.NoError(t, c.Remove(t.Context(), "b1", "run-1"))
			madeBy(t, c, "b1", "later")
			require.NoError(t, c.Bury(t.Context(), "b1", "later", "deleted", false))
		}}
		err := catalog.Catalog{Store: slow}.Remove(t.Context(), "b1", "run-1")
		if slow.nth > 0 {
			require.NoError(t, err)
			require.Greater(t, nth, 10)
			return
		}
		left, listErr := store.List(t.Context(), "")
		require.NoError(t, listErr)
		require.Len(t, left, 7, "call %d, which ended with %v: %v", nth, err, left)
	}
}
