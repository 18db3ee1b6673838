package restore_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// A version of TiKV that blocks stores that join late is warned of in preflight, and in the result.
func TestRun_BackupOfTiKVThatBlocksStores_IsWarnedOf(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := catalog.Catalog{Store: l.store}
	m, err := c.Load(t.Context(), "b")
	require.NoError(t, err)
	body, _, err := l.store.Get(t.Context(), manifest.ManifestKey("b"))
	require.NoError(t, err)
	changed := bytes.Replace(body, []byte(`"version": "8.5.0"`), []byte(`"version": "8.5.7"`), 1)
	require.NotEqual(t, body, changed)
	sealAs(t, l, m.ID, changed)
	result, err := l.restore(within(t), t, nil, nil)
	require.NoError(t, err)
	require.Contains(t, strings.Join(result.Warnings, "\n"), "the backup is of TiKV 8.5.7, which sends nothing")
}
