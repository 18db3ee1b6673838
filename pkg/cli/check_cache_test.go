package cli

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
)

// What --check found is shown by the next list without it, of the same storage and the same backup.
func TestCheckCache_LastCheckIsShownByList(t *testing.T) { // the cache folder is the process's
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("AWS_ENDPOINT_URL", "")
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	items := func() []catalog.Entry {
		return []catalog.Entry{
			{ID: "a", State: catalog.StateSealed, CreatedAt: at.Add(-time.Hour)}, {ID: "b", State: catalog.StateSealed, CreatedAt: at.Add(-time.Hour)},
			{ID: "c", State: catalog.StateUnsealed, CreatedAt: at.Add(-time.Hour)}, {ID: "again", State: catalog.StateSealed, CreatedAt: at.Add(time.Hour)},
		}
	}
	states := func(c checkCache) []catalog.State {
		list := items()
		c.apply(list)
		var out []catalog.State
		for _, e := range list {
			out = append(out, e.State)
		}
		return out
	}
	cache := checkCache{historyCache{url: "s3://b/p"}}
	sound := []catalog.State{catalog.StateSealed, catalog.StateSealed, catalog.StateUnsealed, catalog.StateSealed}
	require.Equal(t, sound, states(cache), "nothing was checked")
	gone := func(ids ...cluster.BackupID) (out []gc.Missing) {
		for _, id := range ids {
			out = append(out, gc.Missing{Backup: id, Snapshots: []cluster.SnapshotID{"snap-1"}})
		}
		return out
	}
	cache.save(checkResult{At: at, Gone: gone("b", "c", "again")})
	require.Equal(t, []catalog.State{catalog.StateSealed, catalog.StateBroken, catalog.StateUnsealed, catalog.StateSealed}, states(cache))
	require.Equal(t, sound, states(checkCache{historyCache{url: "s3://b/other"}}))
	require.Equal(t, sound, states(checkCache{historyCache{url: "s3://b/p", endpoint: "http://localhost"}}), "an emulator's storage may be another one tomorrow")
	cache.save(checkResult{At: at})
	require.Equal(t, sound, states(cache), "a later check found nothing")
	path, err := cache.path()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.Equal(t, sound, states(cache), "a damaged cache is ignored")
}
