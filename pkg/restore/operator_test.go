package restore

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// recorded2 is a cluster of Operator 2.x with two groups, of which one has no store.
func recorded2(config string) manifest.Kubernetes {
	group := func(name, config string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"TiKVGroup","metadata":{"name":"` + name + `"},"spec":{"schedulePolicies":[1],
			"template":{"spec":{"version":"v8.5.0","config":"` + config + `","volumes":[{"name":"data","mounts":[{"type":"data"}]}]}}}}`)
	}
	return manifest.Kubernetes{
		Objects: []json.RawMessage{
			[]byte(`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"Cluster","metadata":{"name":"prod"},"spec":{}}`), group("cold", ""), group("hot", config),
			[]byte(`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"TiKV","metadata":{"name":"hot-aaaaaa","labels":{"pingcap.com/group":"hot"}}}`),
		},
		PVCs: []json.RawMessage{[]byte(`{"metadata":{"name":"data-hot-tikv-aaaaaa","labels":{"pingcap.com/instance":"hot-aaaaaa","pingcap.com/volume-name":"data"}}}`)},
	}
}

func TestLoad_OfOperator2_EvictionsOfItsOperatorAreNotPutBack(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]manifest.Kubernetes{
		`[{"type":"balance-leader"}]`:                                      recorded2(""),
		`[{"type":"balance-leader"},{"type":"evict-leader","args":["4"]}]`: {TidbCluster: json.RawMessage(`{"metadata":{"name":"prod"}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &manifest.Manifest{Kubernetes: of, PDState: &cluster.PDState{Config: map[string]json.RawMessage{
				"schedule": json.RawMessage(`{"schedulers-v2":[{"type":"balance-leader"},{"type":"evict-leader","args":["4"]}]}`),
			}}}
			r := newRun(Deps{Store: objstoretest.NewMemory(nil)}, Options{Manifest: m}, byOthers)
			require.NoError(t, r.runner.Check(t.Context(), phase.Step{Phase: phaseData, Name: "load", Deadline: time.Minute, Do: r.load}))
			require.JSONEq(t, `{"schedulers-v2":`+name+`}`, string(r.backup.PDState.Config["schedule"]))
			require.Contains(t, string(m.PDState.Config["schedule"]), "evict-leader", "the backup's own stays")
		})
	}
}

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
		"1.x, asked for":        {operator: "1", version: "v7.5.0", of: one, want: ""},
		"2.x, asked for":        {operator: "2", version: "v8.5.0", of: two, want: "2.x"},
		"1.x into 2.x":          {operator: "2", version: "v8.5.0", of: one, want: "2.x"},
		"too old":               {operator: "2", version: "v7.5.6", of: one, kind: failure.Unready, want: "runs 8.0 and later"},
		"2.x into 1.x":          {operator: "1", version: "v8.5.0", of: recorded2(""), want: ""},
		"two configurations":    {operator: "1", version: "v8.5.0", of: recorded2("storage.engine = 'x'"), kind: failure.Unready, want: "TiKVGroup hot have map[storage.engine:x]"},
		"a bad configuration":   {operator: "1", version: "v8.5.0", of: recorded2("["), kind: failure.Corrupt, want: "hot"},
		"a bad Cluster":         {operator: "1", version: "v8.5.0", of: two, kind: failure.Corrupt, want: "not recorded"},
		"several parts":         {operator: "2", version: "v8.5.0", of: one, parts: 2, kind: failure.Usage, want: "several Kubernetes clusters"},
		"an unreadable cluster": {operator: "2", version: "v8.5.0", of: manifest.Kubernetes{TidbCluster: json.RawMessage(`{`)}, kind: failure.Corrupt, want: "translate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &manifest.Manifest{Kubernetes: row.of, Parts: make([]manifest.Part, row.parts)}
			m.Source.Version = row.version
			m.Source.Stores = []cluster.Store{{Volumes: []cluster.Volume{{PVC: "data-hot-tikv-aaaaaa"}}}}
			got, lost, err := forOperator(row.operator, m)
			if row.kind != failure.Unknown {
				require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
				require.ErrorContains(t, err, row.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, got.Kubernetes.Operator())
			require.Equal(t, row.of, m.Kubernetes, "the backup's own stays")
			claim := "data-hot-tikv-aaaaaa"
			switch {
			case row.operator == "2" && row.of.TidbCluster != nil:
				require.Equal(t, []string{"spec.timezone"}, lost)
			case row.operator == "1" && row.of.Objects != nil:
				require.Equal(t, []string{"TiKVGroup cold spec.schedulePolicies"}, lost)
				claim = "tikv-prod-tikv-0"
			}
			require.Equal(t, claim, got.Source.Stores[0].Volumes[0].PVC)
			require.Equal(t, "data-hot-tikv-aaaaaa", m.Source.Stores[0].Volumes[0].PVC, "the backup's own stays")
		})
	}
}
