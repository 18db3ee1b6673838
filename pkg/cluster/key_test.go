package cluster_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Progress of a resolve is read by later versions: its ranges stay as they are, byte for byte.
func TestKeyRange_JSON_IsAsBefore(t *testing.T) {
	t.Parallel()
	for want, keys := range map[string]cluster.KeyRange{
		`{"Start":null,"End":null}`:     {},
		`{"Start":"AP8=","End":null}`:   {Start: cluster.EncodedKey{0, 255}},
		`{"Start":"","End":"dAAAAAE="}`: {Start: cluster.EncodedKey{}, End: cluster.EncodedKey("t\x00\x00\x00\x01")},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(keys)
			require.NoError(t, err)
			require.Equal(t, want, string(body))
			var got cluster.KeyRange
			require.NoError(t, json.Unmarshal(body, &got))
			require.Equal(t, keys, got)
		})
	}
}
