package operator2

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// TidbCluster is a cluster of TiDB Operator 2.x as one of 1.x.
type TidbCluster struct {
	Object json.RawMessage
	// Claims are those of its stores, as 1.x names and labels them; Renamed maps the names that they had to these.
	Claims  []json.RawMessage
	Renamed map[string]string
	// Configs are those of the TiKVGroups beside the first, whose configuration all stores get.
	Configs []Config
	// Lost are what is not carried over: objects, and fields of the others.
	Lost []string
}

// ToTidbCluster makes the TidbCluster that a cluster of TiDB Operator 2.x would have in 1.x: of its Cluster and of the
// first group of PD, TiKV and TiDB, since 1.x has one of each. The stores of all groups are in it. What 1.x has no
// place for is Lost. Corrupt if an object or a claim is unreadable, Unready if 1.x could not open its data.
func ToTidbCluster(recorded, claims []json.RawMessage) (*TidbCluster, error) {
	m := &maker{stores: map[string][]*unstructured.Unstructured{}}
	if err := m.read(recorded); err != nil {
		return nil, failure.Annotate(err, translatingBack, "")
	}
	b := &backward{
		of:       cluster.Name{Namespace: m.cluster.GetNamespace(), Name: m.cluster.GetName()},
		ordinals: ordinalsOf(m.stores), spec: map[string]any{}, out: TidbCluster{Renamed: map[string]string{}},
	}
	if err := b.readClaims(claims); err != nil {
		return nil, err
	}
	b.cluster(specOf(m.cluster))
	groups := map[string][]*unstructured.Unstructured{}
	for _, o := range m.groups {
		groups[o.GetKind()] = append(groups[o.GetKind()], o)
	}
	for _, kind := range []string{tikvGroupKind, pdGroupKind, tidbGroupKind} { // TiKV's version is the cluster's
		if err := b.component(groups[kind]); err != nil {
			return nil, err
		}
		delete(groups, kind)
	}
	for kind, others := range groups { // TiFlash, for one: its data is in no backup
		b.loseAll(kind, others)
	}
	slices.Sort(b.out.Lost)
	var err error
	b.out.Object, err = json.Marshal(map[string]any{
		"apiVersion": "pingcap.com/v1alpha1", "kind": "TidbCluster",
		"metadata": map[string]any{"name": b.of.Name, "namespace": b.of.Namespace}, "spec": b.spec,
	})
	return &b.out, failure.Wrap(err, failure.Corrupt, translatingBack, b.of.String())
}

const translatingBack = "translate cluster"

// backward is a translation into a TidbCluster.
type backward struct {
	of       cluster.Name
	ordinals map[string]int // of instances
	claims   []claimDoc
	data     string // name of the volume of TiKV's data
	spec     map[string]any
	out      TidbCluster
}

func (b *backward) refuse(format string, args ...any) error {
	return failure.New(failure.Unready, translatingBack, b.of.String(), format, args...).
		WithHint("restore it into TiDB Operator 2.x")
}

// lose lists the fields of an object that were not taken.
func (b *backward) lose(object string, spec map[string]any) {
	for _, path := range lost(spec) {
		b.out.Lost = append(b.out.Lost, object+" "+path)
	}
}

func (b *backward) loseAll(kind string, objects []*unstructured.Unstructured) {
	for _, o := range objects {
		b.out.Lost = append(b.out.Lost, kind+" "+o.GetName())
	}
}

func (b *backward) cluster(spec map[string]any) {
	tls, _ := take(spec, "tlsCluster").(map[string]any)
	on, _ := tls["enabled"].(bool)
	b.spec["tlsCluster"] = map[string]any{"enabled": on}
	for _, field := range []string{"paused", "suspendAction"} { // of no restored cluster
		delete(spec, field)
	}
	b.lose(clusterKind, spec)
}

// component carries over the first group of a component.
func (b *backward) component(groups []*unstructured.Unstructured) error {
	if len(groups) == 0 {
		return nil
	}
	kind, name := groups[0].GetKind(), groups[0].GetName()
	spec := specOf(groups[0])
	all, _ := spec["template"].(map[string]any)
	template, _ := all["spec"].(map[string]any)
	if template == nil {
		return failure.New(failure.Corrupt, translatingBack, b.of.String(), "its %s %s has no template", kind, name)
	}
	text := func(field string) string {
		value, _ := take(template, field).(string)
		return value
	}
	// Without a configuration 1.x mounts a ConfigMap that it does not make: an empty one is one.
	out := map[string]any{"replicas": take(spec, "replicas"), "config": text("config")}
	b.image(out, text("version"), template)
	if how, _ := template["updateStrategy"].(map[string]any); how["config"] != "HotReload" {
		delete(template, "updateStrategy")
		out["configUpdateStrategy"] = "RollingUpdate" // the default of 2.x, and not of 1.x
	}
	metadata, _ := all["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if of := take(metadata, field); of != nil {
			out[field] = of
		}
	}
	requests := map[string]any{}
	if both, _ := take(template, "resources").(map[string]any); len(both) > 0 {
		out["limits"] = both
		maps.Copy(requests, both)
	}
	switch kind {
	case pdGroupKind:
		b.pdVolume(template, out, requests)
		b.spec[pd] = out
		b.loseAll(kind, groups[1:])
	case tikvGroupKind:
		if err := b.stores(groups, template, out, requests); err != nil {
			return err
		}
		b.spec[tikv] = out
	case tidbGroupKind:
		out["service"] = map[string]any{"type": "ClusterIP"} // 2.x always makes one
		b.spec[tidb] = out
		b.loseAll(kind, groups[1:])
	}
	if len(requests) > 0 {
		out["requests"] = requests
	}
	for _, field := range []string{"cluster", "bootstrapped"} {
		delete(spec, field)
	}
	b.lose(kind+" "+name, flat(spec))
	return nil
}

// image sets a component's image, which 1.x has as the version behind a base. One with a digest is left.
func (b *backward) image(out map[string]any, version string, template map[string]any) {
	if b.spec["version"] == nil {
		b.spec["version"] = version
	}
	image, _ := template["image"].(string)
	if !strings.Contains(image, "@") {
		delete(template, "image")
		if tag := strings.LastIndex(image, ":"); tag > strings.LastIndex(image, "/") {
			image, version = image[:tag], image[tag+1:]
		}
		if image != "" {
			out["baseImage"] = image
		}
	}
	if version != b.spec["version"] {
		out["version"] = version
	}
}

// pdVolume carries over where PD stores its data, which are founded again.
func (b *backward) pdVolume(template, out, requests map[string]any) {
	volumes, _ := template["volumes"].([]any)
	for i, v := range volumes {
		volume, _ := v.(map[string]any)
		mounts, _ := volume["mounts"].([]any)
		if !slices.ContainsFunc(mounts, func(m any) bool {
			mount, _ := m.(map[string]any)
			return mount["type"] == dataMount
		}) {
			continue
		}
		requests["storage"] = volume["storage"]
		if class := volume["storageClassName"]; class != nil {
			out["storageClassName"] = class
		}
		template["volumes"] = slices.Delete(volumes, i, i+1)
		return
	}
}
