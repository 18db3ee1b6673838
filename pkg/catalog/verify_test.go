package catalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/manifest/manifesttest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestLoad_VerifyKey_TakesOnlyWhatItSigned(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key  *manifest.SigningKey
		text string
	}{
		"signed":      {key: manifesttest.SigningKey(t)},
		"not signed":  {text: "it is not signed"},
		"another key": {key: manifesttest.OtherKey(t), text: "and a signature by key " + manifesttest.SigningKey(t).ID() + " is demanded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := newCatalog(t)
			c.SignKey = test.key
			sealed(t, c, "b1")
			_, err := c.Load(t.Context(), "b1")
			require.NoError(t, err, "without a key all are taken")
			c.VerifyKey = manifesttest.SigningKey(t).VerifyKey()
			m, err := c.Load(t.Context(), "b1")
			if test.text == "" {
				require.NoError(t, err)
				require.Equal(t, sample("b1").Snapshots, m.Snapshots)
				return
			}
			require.Nil(t, m)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			require.ErrorContains(t, err, test.text)
		})
	}
}

// A seal by another key, or an unsigned one, in the place of the run's own is no success.
func TestSeal_SignKeyAndSealedAlready_FitsOnlyIfItSigned(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before *manifest.SigningKey
		fits   bool
	}{
		"by the same key": {before: manifesttest.SigningKey(t), fits: true},
		"by another key":  {before: manifesttest.OtherKey(t)},
		"by none":         {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := newCatalog(t, fault.Rule{Point: "s3.PutObject", Position: fault.After, Times: -1})
			c.SignKey = test.before
			sealed(t, c, "b1")
			c.SignKey = manifesttest.SigningKey(t)
			err := c.Seal(t.Context(), "b1", created.Add(2*time.Hour), 0)
			if test.fits {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
		})
	}
}

func TestVerifyEach_UnsignedAmongSigned_IsUntrusted(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	sealed(t, c, "b1")
	c.SignKey = manifesttest.SigningKey(t)
	sealed(t, c, "b2")
	require.NoError(t, c.PutManifest(t.Context(), sample("b3")))
	c.VerifyKey = c.SignKey.VerifyKey()
	entries, err := c.List(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.VerifyEach(t.Context(), entries))
	states := map[string]catalog.State{}
	for _, e := range entries {
		states[string(e.ID)] = e.State
	}
	require.Equal(t, map[string]catalog.State{"b1": catalog.StateUntrusted, "b2": catalog.StateSealed, "b3": catalog.StateUnsealed}, states)
	require.Contains(t, entries[0].Problem, "it is not signed")

	require.NoError(t, store.Delete(t.Context(), manifest.SealKey("b2")))
	require.NoError(t, c.VerifyEach(t.Context(), entries), "it was removed since it was listed")
}
