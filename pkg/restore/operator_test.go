package restore

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestForOperator_OtherThanTheSources_IsTranslatedOrRefused(t *testing.T) {
	t.Parallel()
	one := manifest.Kubernetes{TidbCluster: json.RawMessage(`{"metadata":{"name":"prod"},"spec":{"timezone":"UTC","pd":{"replicas":1}}}`)}
	two := manifest.Kubernetes{Objects: []json.RawMessage{[]byte(`{"kind":"Cluster"}`)}}
	for name, row := range map[string]struct {
		operator, version string
		of                manifest.Kubernetes
		parts             int
		kind              failure.Kind
		want              string // generation of the target, or a part of the error
	}{
		"1.x as it is":          {version: "v7.5.0", of: one, want: ""},
		"2.x as it is":          {version: "v8.5.0", of: two, want: "2.x"},
		"1.x, asked for":        {operator: "1", version: "v7.5.0", of: one, want: ""},
		"2.x, asked for":        {operator: "2", version: "v8.5.0", of: two, want: "2.x"},
		"1.x into 2.x":          {operator: "2", version: "v8.5.0", of: one, want: "2.x"},
		"too old":               {operator: "2", version: "v7.5.6", of: one, kind: failure.Unready, want: "runs 8.0 and later"},
		"several parts":         {operator: "2", version: "v8.5.0", of: one, parts: 2, kind: failure.Usage, want: "several Kubernetes clusters"},
		"2.x into 1.x":          {operator: "1", version: "v8.5.0", of: two, kind: failure.Usage, want: "not restored into 1.x"},
		"an unreadable cluster": {operator: "2", version: "v8.5.0", of: manifest.Kubernetes{TidbCluster: json.RawMessage(`{`)}, kind: failure.Corrupt, want: "translate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &manifest.Manifest{Kubernetes: row.of, Parts: make([]manifest.Part, row.parts)}
			m.Source.Version = row.version
			got, lost, err := forOperator(row.operator, m)
			if row.kind != failure.Unknown {
				require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
				require.ErrorContains(t, err, row.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, got.Kubernetes.Operator())
			require.Equal(t, row.of, m.Kubernetes, "the backup's own stays")
			if row.operator == "2" && row.of.TidbCluster != nil {
				require.Equal(t, []string{"spec.timezone"}, lost)
			}
		})
	}
}
