package backup_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// A process that dies between the proof of its cut and the manifest has read marks that cannot be read again.
func TestRun_DiesBeforeItsManifest_NextProcessHasItsMarks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		damage bool
		warns  bool
	}{
		"they are stored":            {},
		"they are damaged meanwhile": {damage: true, warns: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			o := r.marking()
			first, left := r.diesAt(t, o, "record")
			_, _, err := left.Get(t.Context(), manifest.ManifestKey(o.Backup))
			require.Error(t, err)
			if row.damage {
				_, version, err := left.Get(t.Context(), manifest.MarksKey(o.Backup))
				require.NoError(t, err)
				_, err = left.Replace(t.Context(), manifest.MarksKey(o.Backup), []byte("others"), version)
				require.NoError(t, err)
			}
			second, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			require.Len(t, second.Before, 1)
			r.requireSealed(t, o)
			messages := strings.Join(r.events.texts(), "\n")
			if row.warns {
				require.Contains(t, messages, "those of an earlier process cannot be read")
				require.Nil(t, second.Manifest.Marks)
				return
			}
			require.NotNil(t, second.Manifest.Marks)
			assert.Equal(t, first.Manifest.Marks, second.Manifest.Marks)
			assert.Positive(t, second.Regions)
			assert.Equal(t, first.Regions, second.Regions)
			assert.Equal(t, first.Marks.Len(), second.Marks.Same(first.Marks))
			_, err = catalog.Catalog{Store: left}.Marks(t.Context(), second.Manifest)
			require.NoError(t, err)
		})
	}
}
