package manifest_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestMarks_OtherBytesThanSealed_AreCorrupt(t *testing.T) {
	t.Parallel()
	m := manifest.NewMarks([]byte("marks"), 3, 77)
	require.NoError(t, m.Check([]byte("marks")))
	for _, other := range []string{"", "mark", "markz", "marks "} {
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, failure.Corrupt, failure.KindOf(m.Check([]byte(other))))
		})
	}
	body, err := json.Marshal(m)
	require.NoError(t, err)
	require.Contains(t, string(body), `"regions":3,"ts":"77"`)
}
