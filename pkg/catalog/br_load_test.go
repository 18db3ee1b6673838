package catalog_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// unsealed makes a backup whose run was killed before the seal.
func unsealed(t *testing.T, c catalog.Catalog) {
	t.Helper()
	require.NoError(t, c.Claim(t.Context(), claimOf("b1", "run-1")))
	require.NoError(t, c.PutManifest(t.Context(), sample("b1")))
}

// folder is a store whose root is the folder of the backup.
func folder(t *testing.T, c catalog.Catalog) catalog.Catalog {
	t.Helper()
	own, store := newCatalog(t)
	objects, err := c.Store.List(t.Context(), manifest.BackupPrefix("b1"))
	require.NoError(t, err)
	for _, o := range objects {
		body, _, err := c.Store.Get(t.Context(), o.Key)
		require.NoError(t, err)
		put(t, store, path.Base(o.Key), string(body))
	}
	return own
}

// A backupmeta is there before the backup is whole: whether it is whole depends on what is behind it.
func TestLoadOwn_OnlyASealedBackupIsRestored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, c catalog.Catalog)
		folder  bool
		want    failure.Kind // 0 is none
		br      bool         // it is br's own
	}{
		"of br":                 {func(*testing.T, catalog.Catalog) {}, false, 0, true},
		"by its ts, sealed":     {func(t *testing.T, c catalog.Catalog) { t.Helper(); sealed(t, c, "b1") }, false, 0, false},
		"by its ts, unsealed":   {unsealed, false, failure.Unready, false},
		"in a folder, sealed":   {func(t *testing.T, c catalog.Catalog) { t.Helper(); sealed(t, c, "b1") }, true, 0, false},
		"in a folder, unsealed": {unsealed, true, failure.Unready, false},
		"by the lock, its claim alone": {func(t *testing.T, c catalog.Catalog) {
			t.Helper()
			require.NoError(t, c.Claim(t.Context(), claimOf("b1", "run-1")))
		}, false, failure.Unready, false},
		"by the lock, and nothing of it":  {func(*testing.T, catalog.Catalog) {}, false, failure.NotFound, false},
		"by the lock, its seal is broken": {func(t *testing.T, c catalog.Catalog) { t.Helper(); unsealed(t, c); seal(t, c, "{") }, false, failure.Corrupt, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := newCatalog(t)
			c.prepare(t, k)
			if strings.HasPrefix(name, "by the lock") {
				require.NoError(t, k.LockForBR(t.Context(), claimOf("b1", "run-1")))
			}
			if c.folder {
				k = folder(t, k)
			}
			m, err := k.LoadOwn(t.Context(), sample("b1").BackupTS)
			if c.want != 0 {
				require.Equal(t, c.want, failure.KindOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.br, m == nil)
		})
	}
}

func seal(t *testing.T, c catalog.Catalog, body string) {
	t.Helper()
	_, err := c.Store.Create(t.Context(), manifest.SealKey("b1"), []byte(body))
	require.NoError(t, err)
}

// The Job that is made again in a used prefix learns whose it is and what it can do.
func TestCheckFreeForBR_UsedPrefix_NamesTheOwner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare       func(t *testing.T, c catalog.Catalog)
		message, hint string
	}{
		"a dead run":     {unsealed, "of backup b1, which is not sealed: its run run-1 is active, or died", "tisnap gc --older-than 0s --yes --storage "},
		"a whole backup": {func(t *testing.T, c catalog.Catalog) { t.Helper(); sealed(t, c, "b1") }, "of backup b1, which is sealed", "choose another prefix"},
		"one being buried": {func(t *testing.T, c catalog.Catalog) {
			t.Helper()
			require.NoError(t, c.Bury(t.Context(), "b1", "", "x", false))
		}, "not sealed", "tisnap gc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := newCatalog(t)
			c.prepare(t, k)
			require.NoError(t, k.LockForBR(t.Context(), claimOf("b1", "run-1")))
			err := k.CheckFreeForBR(t.Context(), "b2")
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, c.message)
			require.Contains(t, failure.HintOf(err), c.hint)
		})
	}
}

// What a run that failed wrote at the root goes; what another one wrote stays.
func TestForgetForBR_OnlyItsOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lock  cluster.RunID // "" is none
		root  string
		stays bool
	}{
		"its lock":                  {"run-1", "whatever", false},
		"another's lock":            {"run-2", "whatever", true},
		"no lock, its document":     {"", "own", false},
		"no lock, another document": {"", "whatever", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := catalog.Catalog{Store: objstoretest.NewMemory(nil)}
			for key, body := range map[string]string{manifest.BackupMetaKey("b1"): "own", manifest.BRBackupMeta: c.root} {
				_, err := k.Store.Create(t.Context(), key, []byte(body))
				require.NoError(t, err)
			}
			if c.lock != "" {
				require.NoError(t, k.LockForBR(t.Context(), claimOf("b1", c.lock)))
			}
			for range 2 {
				require.NoError(t, k.ForgetForBR(t.Context(), "b1", "run-1"))
			}
			_, _, err := k.Store.Get(t.Context(), manifest.BRBackupMeta)
			require.Equal(t, c.stays, err == nil, "%v", err)
		})
	}
}
