package restore_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// A backup of the first version, whose manifest has neither marks nor anything else that came later, is restored, and every
// region is flashed back.
func TestRun_BackupOfTheFirstVersion_EveryRegionIsFlashedBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := catalog.Catalog{Store: l.store}
	m, err := c.Load(t.Context(), "b")
	require.NoError(t, err)
	require.NotNil(t, m.Marks, "the backup has marks, which its restore would use")
	first, err := os.ReadFile("../manifest/testdata/manifest.v1.json")
	require.NoError(t, err)
	body, _, err := l.store.Get(t.Context(), manifest.ManifestKey("b"))
	require.NoError(t, err)
	sealAs(t, l, m.ID, asOf(t, body, first))
	m, err = c.Load(t.Context(), "b")
	require.NoError(t, err)
	require.Nil(t, m.Marks)

	result, err := l.restore(within(t), t, nil, nil)
	require.NoError(t, err)
	require.Zero(t, result.Resolve.Unchanged)
	require.Positive(t, result.Resolve.Flashed)
	require.Equal(t, result.Resolve.Regions, result.Resolve.Flashed)
}

// asOf is the document without the fields that the older one does not have. What is Kubernetes' own is kept.
func asOf(t *testing.T, doc, older []byte) []byte {
	t.Helper()
	var now, then any
	for of, into := range map[string]*any{string(doc): &now, string(older): &then} {
		d := json.NewDecoder(strings.NewReader(of))
		d.UseNumber() // the cluster's id needs all of its digits
		require.NoError(t, d.Decode(into))
	}
	body, err := json.Marshal(fieldsOf(now, then))
	require.NoError(t, err)
	return body
}

func fieldsOf(now, then any) any {
	switch now := now.(type) {
	case map[string]any:
		fields, ok := then.(map[string]any)
		if !ok {
			return now
		}
		for name, value := range now {
			old, known := fields[name]
			switch {
			case !known:
				delete(now, name)
			case name != "kubernetes":
				now[name] = fieldsOf(value, old)
			}
		}
	case []any:
		items, ok := then.([]any)
		if !ok || len(items) == 0 {
			return now
		}
		for i := range now {
			now[i] = fieldsOf(now[i], items[0])
		}
	}
	return now
}

// sealAs puts the document and its seal in the place of the sealed one.
func sealAs(t *testing.T, l *lab, id cluster.BackupID, body []byte) {
	t.Helper()
	sealed, err := manifest.Seal(body, time.Now(), 0)
	require.NoError(t, err)
	for key, doc := range map[string][]byte{manifest.ManifestKey(id): body, manifest.SealKey(id): sealed} {
		_, version, err := l.store.Get(t.Context(), key)
		require.NoError(t, err)
		_, err = l.store.Replace(t.Context(), key, doc, version)
		require.NoError(t, err)
	}
}
