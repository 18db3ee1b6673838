package cluster_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// timestamps is a document with timestamps in every place where one can be.
type timestamps struct {
	TS     cluster.TS                     `json:"ts"`
	Absent cluster.TS                     `json:"absent,omitempty"`
	Of     map[cluster.StoreID]cluster.TS `json:"of"`
}

func TestTS_InJSON_IsAString(t *testing.T) {
	t.Parallel()
	want := timestamps{TS: math.MaxUint64, Of: map[cluster.StoreID]cluster.TS{4: 7}}
	body, err := json.Marshal(want)
	require.NoError(t, err)
	require.Equal(t, `{"ts":"18446744073709551615","of":{"4":"7"}}`, string(body))
	var got timestamps
	require.NoError(t, json.Unmarshal(body, &got))
	require.Equal(t, want, got)
}

func TestTS_FromJSON_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a number": `{"ts":7}`, "nothing": `{"ts":""}`, "a word": `{"ts":"now"}`, "a sign": `{"ts":"-1"}`,
		"too large": `{"ts":"18446744073709551616"}`, "a fraction": `{"ts":"1.5"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got timestamps
			require.Error(t, json.Unmarshal([]byte(body), &got))
			require.Zero(t, got.TS)
		})
	}
}
