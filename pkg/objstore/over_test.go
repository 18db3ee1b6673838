package objstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// What is replaced whatever it has can be replaced when it is damaged, too, and not when others replaced it meanwhile.
func TestWriteOver_MissingDamagedOrWhole(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.GetObject", Nth: 3, Code: "CorruptBody", Times: 8})
	over := func(text string, want []byte) objstore.Version {
		t.Helper()
		body, version, err := objstore.ToReplace(t.Context(), store, "a")
		require.NoError(t, err)
		require.Equal(t, want, body)
		require.NoError(t, objstore.WriteOver(t.Context(), store, "a", []byte(text), version))
		return version
	}
	require.Empty(t, over("one", nil))
	_, err := store.Create(t.Context(), "a-more", []byte("x"))
	require.NoError(t, err)
	old := over("two", []byte("one"))
	require.NotEmpty(t, over("three", nil), "it is damaged")
	over("four", []byte("three"))
	for _, version := range []objstore.Version{old, ""} {
		err = objstore.WriteOver(t.Context(), store, "a", []byte("five"), version)
		require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	}
}
