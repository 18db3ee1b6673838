package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestValidate_Parts_HaveEveryStoreOnce(t *testing.T) {
	t.Parallel()
	a := func(stores ...cluster.StoreID) manifest.Part { return manifest.Part{Name: "a", Stores: stores} }
	b := func(stores ...cluster.StoreID) manifest.Part { return manifest.Part{Name: "b", Stores: stores} }
	for name, row := range map[string]struct {
		parts []manifest.Part
		text  string
	}{
		"all":         {[]manifest.Part{a(4, 6), b(5)}, ""},
		"one lacks":   {[]manifest.Part{a(4), b(5)}, "store 6 is in no part"},
		"one twice":   {[]manifest.Part{a(4, 6), b(5, 6)}, "store 6 is in the parts a and b"},
		"one unknown": {[]manifest.Part{a(4, 6), b(5, 9)}, "part b has store 9"},
		"one name":    {[]manifest.Part{a(4, 6), a(5)}, `called "a"`},
		"no name":     {[]manifest.Part{{Stores: []cluster.StoreID{4, 5, 6}}}, `called ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := sample()
			m.Parts = row.parts
			err := m.Validate()
			if row.text == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.text)
		})
	}
}

// The snapshots of an adopted backup are tagged as its parts', those of its copy as its own.
func TestTaggedAs_PartsHaveTheirOwn(t *testing.T) {
	t.Parallel()
	m := sample()
	require.Equal(t, m.ID, m.TaggedAs(4))
	require.Same(t, &m.Kubernetes, m.KubernetesOf(4))
	m.Parts = []manifest.Part{{Name: "a", Backup: "part-a", Stores: []cluster.StoreID{4, 5, 6}}}
	require.EqualValues(t, "part-a", m.TaggedAs(4))
	require.Same(t, &m.Parts[0].Kubernetes, m.KubernetesOf(4))
	require.True(t, m.Adopted())
	m.CopyOf = &manifest.CopyOf{}
	require.Equal(t, m.ID, m.TaggedAs(4))
	require.False(t, m.Adopted())
}
