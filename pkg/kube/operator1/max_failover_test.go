package operator1

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
)

func TestFailover_OffDuringTheRestore_IsPutBackAsItWas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ field, during string }{
		"not set": {``, "null"},
		"three":   {`, "maxFailoverCount": 3`, "3"},
		"zero":    {`, "maxFailoverCount": 0`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := fmt.Sprintf(`{"spec": {"tikv": {"replicas": 3%s}}}`, c.field)
			made, err := Make(json.RawMessage(source), Target{Name: cluster.Name{Namespace: "prod", Name: "dst"}, Run: "r1"})
			require.NoError(t, err)
			o := made.Object
			n, there, err := unstructured.NestedInt64(o.Object, "spec", "tikv", "maxFailoverCount")
			require.NoError(t, err)
			require.True(t, there)
			require.Zero(t, n)
			require.Equal(t, c.during, o.GetAnnotations()[failoverKey])
			withFailover(o)
			require.NotContains(t, o.GetAnnotations(), failoverKey)
			var want struct{ Spec map[string]any }
			require.NoError(t, json.Unmarshal([]byte(source), &want))
			want.Spec["recoveryMode"] = true
			got, err := json.Marshal(o.Object["spec"])
			require.NoError(t, err)
			wanted, err := json.Marshal(want.Spec)
			require.NoError(t, err)
			require.JSONEq(t, string(wanted), string(got))
		})
	}
}
