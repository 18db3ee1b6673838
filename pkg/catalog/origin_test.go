package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// What is kept of a signed source is returned only if it is what the copy's manifest names. An older tisnap named the
// source's manifest alone.
func TestOrigin_ReturnsWhatTheManifestNames(t *testing.T) {
	t.Parallel()
	kept := catalog.Document{Manifest: []byte("{}"), Signature: "signed"}
	another := catalog.Document{Manifest: []byte("{ }"), Signature: "signed again"}
	for name, tt := range map[string]struct {
		of   manifest.CopyOf
		want failure.Kind
	}{
		"this":              {manifest.CopyOf{ManifestSHA256: kept.SHA256(), SignatureSHA256: kept.SignatureSHA256()}, 0},
		"of an older tool":  {manifest.CopyOf{ManifestSHA256: kept.SHA256()}, 0},
		"another signature": {manifest.CopyOf{ManifestSHA256: kept.SHA256(), SignatureSHA256: another.SignatureSHA256()}, failure.Corrupt},
		"another manifest":  {manifest.CopyOf{ManifestSHA256: another.SHA256(), SignatureSHA256: kept.SignatureSHA256()}, failure.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := catalog.Catalog{Store: objstoretest.NewMemory(nil)}
			require.NoError(t, c.PutOrigin(t.Context(), "b", kept))
			tt.of.Signed = true
			got, err := c.Origin(t.Context(), &manifest.Manifest{ID: "b", CopyOf: &tt.of})
			if tt.want != 0 {
				require.Equal(t, tt.want, failure.KindOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, kept, got)
		})
	}
}
