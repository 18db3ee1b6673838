package operator2

import (
	"slices"

	"github.com/pelletier/go-toml/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
)

// sessionTokens is the gate and the feature by which TiDB needs a secret for TiProxy's sessions.
const sessionTokens = "SessionTokenSigning"

// shrink turns the source's objects into those of the smallest cluster that opens its data: its stores, one PD and one
// TiDB, whose background work rests, and nothing that sends data elsewhere. What would need an object of the source's
// namespace is left out: TLS, tokens, service accounts.
func (m *maker) shrink() error {
	spec := specOf(m.cluster)
	for _, field := range []string{"tlsCluster", "security"} {
		delete(spec, field)
	}
	leaveOut(spec, "featureGates", func(gate any) bool {
		named, _ := gate.(map[string]any)
		return named["name"] == sessionTokens
	})
	m.cluster.Object["spec"] = spec
	kept := map[string]bool{}
	m.groups = slices.DeleteFunc(m.groups, func(group *unstructured.Unstructured) bool {
		kind := group.GetKind()
		more := kept[kind] && kind != tikvGroupKind
		kept[kind] = true
		return more || !slices.Contains([]string{pdGroupKind, tikvGroupKind, tidbGroupKind}, kind)
	})
	if !kept[tidbGroupKind] {
		return failure.New(failure.Usage, "make smallest cluster", m.to.Name.String(),
			"the source has no TiDB, so nothing of it can be checked by SQL")
	}
	for _, group := range m.groups {
		if err := shrinkGroup(group); err != nil {
			return err
		}
	}
	return nil
}

func shrinkGroup(group *unstructured.Unstructured) error {
	spec := specOf(group)
	leaveOut(spec, "features", func(feature any) bool { return feature == sessionTokens })
	template, _, _ := unstructured.NestedMap(spec, "template", "spec")
	if template == nil {
		template = map[string]any{}
	}
	delete(template, "security")
	unstructured.RemoveNestedField(template, "overlay", "pod", "spec", "serviceAccountName")
	kind := group.GetKind()
	if kind != tikvGroupKind {
		spec["replicas"] = int64(1)
	}
	if kind == tidbGroupKind {
		delete(template, "server") // its ports are the usual ones
		delete(template, "mode")   // one on standby serves nothing
		was, _ := template["config"].(string)
		config, err := restingConfig(was)
		if err != nil {
			return failure.Wrap(err, failure.Corrupt, "read TiDB's configuration", group.GetName())
		}
		template["config"] = config
	}
	group.Object["spec"] = spec
	return unstructured.SetNestedMap(spec, template, "template", "spec")
}

// leaveOut removes what matches from a list.
func leaveOut(spec map[string]any, field string, matches func(any) bool) {
	if list, has := spec[field].([]any); has {
		spec[field] = slices.DeleteFunc(list, matches)
	}
}

// restingConfig is TiDB's configuration without a DDL owner, so that jobs in the queue rest, and without automatic
// ANALYZE.
func restingConfig(config string) (string, error) {
	tables := map[string]any{}
	if err := toml.Unmarshal([]byte(config), &tables); err != nil {
		return "", err
	}
	for table, setting := range map[string]string{"instance": "tidb_enable_ddl", "performance": "run-auto-analyze"} {
		if err := unstructured.SetNestedField(tables, false, table, setting); err != nil {
			return "", err
		}
	}
	text, err := toml.Marshal(tables)
	return string(text), err
}
