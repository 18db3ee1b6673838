package operator2

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Translated is a cluster of TiDB Operator 1.x as one of 2.x.
type Translated struct {
	// Objects are its objects as a manifest has them, and Claims the claims of its stores as the Operator labels them.
	Objects, Claims []json.RawMessage
	// Lost are the fields of the TidbCluster that are not carried over, as paths.
	Lost []string
}

// need is what a component of a cluster needs, whichever Operator runs it.
type need struct {
	kind, image, version string
	replicas             int64
	config               string // TOML
	cpu, memory          string
	labels, annotations  map[string]any
	volumes              []any
}

// Translate makes the objects that a cluster of TiDB Operator 1.x would have in 2.x: its Cluster, groups of PD, TiKV
// and TiDB, and an instance for each of its stores. What 2.x has no place for, or has to be chosen again, is Lost.
// Corrupt if the TidbCluster or a claim is unreadable, Unready if 2.x could not open its data.
func Translate(tidbCluster json.RawMessage, claims []json.RawMessage) (*Translated, error) {
	t := &translation{}
	if err := utiljson.Unmarshal(tidbCluster, &t.from.Object); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, translating, "")
	}
	t.spec, _ = t.from.Object["spec"].(map[string]any)
	if t.spec == nil || t.from.GetName() == "" {
		return nil, t.refuse(failure.Corrupt, "its TidbCluster has no spec or no name")
	}
	for _, field := range []string{"paused", "suspendAction", "recoveryMode"} { // of no restored cluster
		delete(t.spec, field)
	}
	tls, _ := take(t.spec, "tlsCluster").(map[string]any)
	on, _ := tls["enabled"].(bool)
	if err := t.put(clusterKind, t.from.GetName(), nil, map[string]any{
		"tlsCluster": map[string]any{"enabled": on},
	}); err != nil {
		return nil, err
	}
	version, _ := take(t.spec, "version").(string)
	for _, component := range []string{pd, tikv, tidb} {
		if err := t.component(component, version); err != nil {
			return nil, err
		}
	}
	if err := t.stores(claims); err != nil {
		return nil, err
	}
	t.out.Lost = lost(t.spec)
	return &t.out, nil
}

const translating = "translate tidbcluster"

type translation struct {
	from unstructured.Unstructured
	spec map[string]any // of which each field that is carried over is taken
	out  Translated
}

func (t *translation) refuse(kind failure.Kind, format string, args ...any) *failure.Error {
	return failure.New(kind, translating, t.from.GetName(), format, args...)
}

func take(from map[string]any, field string) any {
	value := from[field]
	delete(from, field)
	return value
}

func (t *translation) put(kind, name string, labels map[string]string, spec map[string]any) error {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(GroupVersion)
	o.SetKind(kind)
	o.SetNamespace(t.from.GetNamespace())
	o.SetName(name)
	o.SetLabels(labels)
	raw, err := o.MarshalJSON()
	t.out.Objects = append(t.out.Objects, raw)
	return failure.Wrap(err, failure.Corrupt, translating, t.from.GetName())
}

// component carries a component over, if the cluster has it.
func (t *translation) component(name, version string) error {
	from, has := t.spec[name].(map[string]any)
	if !has {
		return nil
	}
	n := need{kind: map[string]string{pd: pdGroupKind, tikv: tikvGroupKind, tidb: tidbGroupKind}[name]}
	n.replicas, _ = take(from, "replicas").(int64)
	n.image, _ = take(from, "baseImage").(string)
	own, _ := take(from, "version").(string)
	n.version = cmp.Or(own, version)
	n.labels, _ = take(from, "labels").(map[string]any)
	n.annotations, _ = take(from, "annotations").(map[string]any)
	var err error
	if n.config, err = t.config(name, take(from, "config")); err != nil {
		return err
	}
	if subDir, _ := from["dataSubDir"].(string); subDir != "" {
		return t.refuse(failure.Unready,
			"its %s stores data in the folder %s of its volume, and TiDB Operator 2.x in the volume itself", name,
			subDir).
			WithHint("restore it into TiDB Operator 1.x")
	}
	requests, _ := from["requests"].(map[string]any)
	if size := take(requests, "storage"); size != nil && name != tidb {
		class := take(from, "storageClassName")
		n.volumes = append(n.volumes, volumeOf(dataMount, map[string]any{"type": dataMount}, size, class))
		if name == tikv {
			more := storageVolumes(from, class)
			if slices.ContainsFunc(more, isNamedData) {
				return t.refuse(failure.Unready,
					"a further volume of its TiKVs is named data, as TiDB Operator 2.x names the one with the data").
					WithHint("restore it into TiDB Operator 1.x")
			}
			n.volumes = append(n.volumes, more...)
		}
	}
	n.cpu, n.memory = resourceOf(from, "cpu"), resourceOf(from, "memory")
	for _, field := range []string{"requests", "limits"} {
		if rest, _ := from[field].(map[string]any); len(rest) == 0 {
			delete(from, field)
		}
	}
	if len(from) == 0 {
		delete(t.spec, name)
	}
	return t.put(n.kind, name, nil, n.spec())
}

// spec is that of its group.
func (n *need) spec() map[string]any {
	template := map[string]any{"version": n.version}
	for field, text := range map[string]string{"image": n.image, "config": n.config} {
		if text != "" {
			template[field] = text
		}
	}
	resources := map[string]any{}
	for field, text := range map[string]string{"cpu": n.cpu, "memory": n.memory} {
		if text != "" {
			resources[field] = text
		}
	}
	if len(resources) > 0 {
		template["resources"] = resources
	}
	if len(n.volumes) > 0 {
		template["volumes"] = n.volumes
	}
	metadata := map[string]any{}
	for field, of := range map[string]map[string]any{"labels": n.labels, "annotations": n.annotations} {
		if len(of) > 0 {
			metadata[field] = of
		}
	}
	all := map[string]any{"spec": template}
	if len(metadata) > 0 {
		all["metadata"] = metadata
	}
	return map[string]any{"replicas": n.replicas, "template": all}
}

func volumeOf(name string, mount map[string]any, size, class any) map[string]any {
	volume := map[string]any{"name": name, "mounts": []any{mount}, "storage": size}
	if class, _ := class.(string); class != "" {
		volume["storageClassName"] = class
	}
	return volume
}

func isNamedData(volume any) bool {
	of, _ := volume.(map[string]any)
	return of["name"] == dataMount
}

// storageVolumes are the volumes of a TiKV beside the one with its data, of whose class they are by default.
func storageVolumes(from map[string]any, byDefault any) (volumes []any) {
	list, _ := take(from, "storageVolumes").([]any)
	for _, v := range list {
		volume, _ := v.(map[string]any)
		class := volume["storageClassName"]
		if class == nil {
			class = byDefault
		}
		name, _ := volume["name"].(string)
		mount := map[string]any{"type": name, "mountPath": volume["mountPath"]} // 2.0 demands a type, any but ""
		volumes = append(volumes, volumeOf(name, mount, volume["storageSize"], class))
	}
	return volumes
}

// resourceOf is what a component is limited to, or requests: 2.x has one value for both. Another request is left.
func resourceOf(from map[string]any, name string) string {
	requests, _ := from["requests"].(map[string]any)
	limits, _ := from["limits"].(map[string]any)
	limit, request := take(limits, name), requests[name]
	if limit == nil || request == limit {
		delete(requests, name)
	}
	if limit == nil {
		limit = request
	}
	if limit == nil {
		return ""
	}
	return fmt.Sprint(limit)
}

// config is a component's configuration as TOML, without what TiDB Operator 2.x sets and lets no user set.
func (t *translation) config(component string, from any) (string, error) {
	tables, isTable := from.(map[string]any)
	text, _ := from.(string)
	if !isTable {
		if err := toml.Unmarshal([]byte(text), &tables); err != nil {
			return "", failure.Wrap(err, failure.Corrupt, translating, "spec."+component+".config")
		}
	}
	dir, _, _ := unstructured.NestedString(tables, "storage", "data-dir")
	if component == tikv && dir != "" && strings.TrimSuffix(dir, "/") != defaultDataPath {
		return "", t.refuse(failure.Unready, "its TiKV stores data in %s, and TiDB Operator 2.x in %s", dir,
			defaultDataPath).
			WithHint("restore it into TiDB Operator 1.x")
	}
	if dir != "" {
		unstructured.RemoveNestedField(tables, "storage", "data-dir")
	} else if !isTable {
		return text, nil
	}
	if len(tables) == 0 {
		return "", nil
	}
	out, err := toml.Marshal(tables)
	return string(out), failure.Wrap(err, failure.Corrupt, translating, "spec."+component+".config")
}

// stores labels the claims of the stores as those of instances, and records these.
func (t *translation) stores(claims []json.RawMessage) error {
	seen := map[string]bool{}
	for _, raw := range claims {
		var claim struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`

			Spec   json.RawMessage `json:"spec"`
			Status json.RawMessage `json:"status,omitempty"`
		}
		if err := json.Unmarshal(raw, &claim); err != nil {
			return failure.Wrap(err, failure.Corrupt, translating, "a claim")
		}
		template, ordinal, ok := strings.Cut(claim.Name, "-"+t.from.GetName()+"-"+tikv+"-")
		n, err := strconv.Atoi(ordinal)
		volume := strings.TrimPrefix(template, tikv+"-")
		if volume == tikv {
			volume = dataMount
		}
		if !ok || err != nil || n < 0 {
			return t.refuse(failure.Corrupt, "claim %s is of no TiKV pod", claim.Name)
		}
		instance := fmt.Sprintf("%s-%06d", tikv, n) // pods are in the order of their names
		claim.Labels = maps.Clone(claim.Labels)
		if claim.Labels == nil {
			claim.Labels = map[string]string{}
		}
		maps.Copy(claim.Labels, map[string]string{
			managedByLabel: managedBy, componentLabel: tikv, clusterLabel: t.from.GetName(), groupLabel: tikv,
			instanceLabel: instance, volumeLabel: volume,
		})
		labelled, err := json.Marshal(claim)
		if err != nil {
			return failure.Wrap(err, failure.Corrupt, translating, claim.Name)
		}
		t.out.Claims = append(t.out.Claims, labelled)
		if seen[instance] {
			continue
		}
		seen[instance] = true
		if err := t.put("TiKV", instance, map[string]string{groupLabel: tikv}, map[string]any{}); err != nil {
			return err
		}
	}
	return nil
}

// lost lists what is left of a TidbCluster's spec and is not empty.
func lost(spec map[string]any) (paths []string) {
	add := func(path string, value any) {
		if text := fmt.Sprint(value); !slices.Contains([]string{"false", "", "0", "map[]", "[]", "<nil>"}, text) {
			paths = append(paths, path)
		}
	}
	for field, value := range spec {
		of, isComponent := value.(map[string]any)
		if !isComponent || !slices.Contains([]string{pd, tikv, tidb}, field) {
			add("spec."+field, value)
			continue
		}
		for inner := range of {
			add("spec."+field+"."+inner, of[inner])
		}
	}
	slices.Sort(paths)
	return paths
}
