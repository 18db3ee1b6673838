package operator1_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

func TestJoined_OneClusterOfAllMembers(t *testing.T) {
	t.Parallel()
	first := json.RawMessage(`{"metadata":{"name":"a"},"spec":{"acrossK8s":true,"clusterDomain":"a.local",
		"pd":{"replicas":1},"tikv":{"replicas":2,"config":"x"},"tidb":{"replicas":1}},"status":{"tikv":{"peerStores":{"7":{}}}}}`)
	second := json.RawMessage(`{"metadata":{"name":"b"},"spec":{"acrossK8s":true,"cluster":{"name":"a","namespace":"tidb"},
		"pd":{"replicas":2},"tikv":{"replicas":3}}}`)
	joined, err := operator1.Joined([]json.RawMessage{first, second})
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"name":"a"},"spec":{"pd":{"replicas":3},"tikv":{"replicas":5,"config":"x"},
		"tidb":{"replicas":1}}}`, string(joined))

	for object, want := range map[string]bool{string(first): false, string(second): true, `{"spec":{"pdAddresses":["http://pd:2379"]}}`: true} {
		joins, err := operator1.Joins(json.RawMessage(object))
		require.NoError(t, err)
		require.Equal(t, want, joins, object)
	}
	_, err = operator1.Joined([]json.RawMessage{[]byte(`{}`)})
	require.ErrorContains(t, err, "no spec")
	_, err = operator1.Joined([]json.RawMessage{[]byte(`{`)})
	require.ErrorContains(t, err, "read tidbcluster")
}
