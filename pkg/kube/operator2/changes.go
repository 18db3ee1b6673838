package operator2

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Changes is how the user wants a target to differ from its source. Both are of the target's objects, by their names,
// and only their specs count.
type Changes struct {
	// Manifest has the user's own Cluster and groups, used instead of the source's; nil uses the source's. Instances in
	// it are ignored.
	Manifest []json.RawMessage
	// Patches are applied in order to the result: merge patches (RFC 7386), each of the object whose kind and name it
	// has.
	Patches []json.RawMessage
	// Smallest makes, of the source's objects, the smallest cluster that a drill can check, before the patches.
	Smallest bool
}

// Config is the configuration of a TiKVGroup of the source, and of the target.
type Config struct{ Group, Source, Target string }

// ReadManifest returns the Operator's objects of a YAML or JSON text as a List; nil if it has none.
func ReadManifest(text []byte, file string) (json.RawMessage, error) {
	const op = "read manifest"
	var found []json.RawMessage
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, op, file)
		}
		object, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, op, file)
		}
		var of struct {
			APIVersion string            `json:"apiVersion"`
			Items      []json.RawMessage `json:"items"`
		}
		switch {
		case json.Unmarshal(object, &of) != nil:
		case of.APIVersion == GroupVersion:
			found = append(found, object)
		case len(of.Items) > 0:
			found = append(found, of.Items...)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": found})
	return list, failure.Wrap(err, failure.Usage, op, file)
}

// changes are the user's changes of one target.
type changes struct {
	target  cluster.Name
	own     map[string]*unstructured.Unstructured // by kind and name; nil without a manifest
	order   []string                              // of own
	patches []patch
	met     map[string]bool // objects that the target has
}

type patch struct {
	of   string // kind and name
	text []byte
}

func keyOf(kind, name string) string { return kind + " " + name }

func (m *maker) readChanges(c Changes) error {
	m.changes = changes{target: m.to.Name, met: map[string]bool{}}
	for _, raw := range c.Manifest {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw); err != nil {
			return failure.Wrap(err, failure.Usage, "read manifest", m.to.Name.String())
		}
		key := keyOf(o.GetKind(), o.GetName())
		switch namespace := o.GetNamespace(); {
		case o.GetKind() != clusterKind && !strings.HasSuffix(o.GetKind(), "Group"):
			continue
		case namespace != "" && namespace != m.to.Name.Namespace:
			return m.changes.refuse("its %s is in namespace %s", key, namespace)
		case m.changes.own[key] != nil:
			return m.changes.refuse("it has two %s", key)
		case m.changes.own == nil:
			m.changes.own = map[string]*unstructured.Unstructured{}
		}
		m.changes.own[key] = o
		m.changes.order = append(m.changes.order, key)
	}
	for _, text := range c.Patches {
		var of struct {
			Kind     string         `json:"kind"`
			Metadata map[string]any `json:"metadata"`
		}
		err := json.Unmarshal(text, &of)
		name, _ := of.Metadata["name"].(string)
		if err != nil || of.Kind == "" || name == "" || len(of.Metadata) > 1 {
			return failure.New(failure.Usage, "patch cluster", m.to.Name.String(),
				"a patch of a cluster of TiDB Operator 2.x names its object, and changes nothing but its spec").
				WithHint("write it as a part of the object: kind, metadata.name, and what to change in spec; " +
					"--print-manifest shows the names")
		}
		m.changes.patches = append(m.changes.patches, patch{keyOf(of.Kind, name), text})
	}
	return nil
}

func (c *changes) refuse(format string, args ...any) error {
	return failure.New(failure.Usage, "read manifest", c.target.String(), format, args...).
		WithHint("make a manifest that fits by --print-manifest, and change that")
}

// apply returns the spec of an object of the target with the user's changes; there is false if their manifest has no
// such object.
func (c *changes) apply(kind, name string, spec map[string]any) (_ map[string]any, there bool, err error) {
	key := keyOf(kind, name)
	c.met[key] = true
	if c.own != nil {
		if c.own[key] == nil {
			return nil, false, nil
		}
		spec = specOf(c.own[key])
	}
	for _, p := range c.patches {
		if p.of != key {
			continue
		}
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": GroupVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
		}}
		text, err := o.MarshalJSON()
		if err == nil {
			text, err = jsonpatch.MergePatch(text, p.text)
		}
		if err == nil {
			err = o.UnmarshalJSON(text)
		}
		if err != nil {
			return nil, true, failure.Wrap(err, failure.Usage, "patch "+strings.ToLower(kind), name)
		}
		spec = specOf(o)
	}
	return spec, true, nil
}

// added are the groups that only the user's manifest has.
func (c *changes) added() (added []*unstructured.Unstructured) {
	for _, key := range c.order {
		if !c.met[key] {
			added = append(added, c.own[key])
		}
	}
	return added
}

// unused rejects patches of objects that the target does not have.
func (c *changes) unused() error {
	for _, p := range c.patches {
		if !c.met[p.of] {
			return failure.New(failure.Usage, "patch cluster", c.target.String(), "the target has no %s", p.of).
				WithHint("it has: %s", strings.Join(slices.Sorted(maps.Keys(c.met)), ", "))
		}
	}
	return nil
}

// checkData rejects a TiKVGroup with which its stores could not open the restored volumes: another version, other
// mounts or sizes, or another number of stores.
func checkData(name string, was, is map[string]any, stores int) error {
	var different []string
	add := func(what string, got, want any) {
		different = append(different, fmt.Sprintf("%s is %v, but the restore needs %v", what, got, want))
	}
	if n, has := is["replicas"]; has && n != was["replicas"] && fmt.Sprint(n) != fmt.Sprint(stores) {
		add("spec.replicas", n, stores)
	}
	version := func(spec map[string]any) string {
		v, _, _ := unstructured.NestedString(spec, "template", "spec", "version")
		return strings.TrimPrefix(v, "v")
	}
	if version(is) != version(was) {
		add("spec.template.spec.version", version(is), version(was))
	}
	if got, want := mountsOf(is), mountsOf(was); got != want {
		add("spec.template.spec.volumes", got, want)
	}
	if len(different) == 0 {
		return nil
	}
	return failure.New(failure.Usage, "compare cluster", name, "%s", strings.Join(different, "; ")).
		WithHint("leave these to the restore: scale and upgrade after it")
}

// mountsOf describes what a TiKVGroup mounts where.
func mountsOf(spec map[string]any) string {
	var all []string
	volumes, _, _ := unstructured.NestedSlice(spec, "template", "spec", "volumes")
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		mounts, _ := volume["mounts"].([]any)
		for _, m := range mounts {
			mount, _ := m.(map[string]any)
			text := func(field string) string { // none is as ""
				value, _ := mount[field].(string)
				return value
			}
			all = append(all,
				fmt.Sprintf("%v %s at %s/%s", volume["name"], text("type"), text("mountPath"), text("subPath")))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// checkSizes rejects sizes that the user has changed, and that the restored volumes do not have.
func checkSizes(name string, was, is map[string]any, s TargetStore) error {
	before := sizesOf(was)
	for volume, size := range sizesOf(is) {
		giB := s.Volumes[volume].SizeGiB
		if q, err := resource.ParseQuantity(size); size != before[volume] && (err != nil || q.Value() != giB<<30) {
			return failure.New(failure.Usage, "compare cluster", name,
				"its volume %s has %s, but the restored one will have %d GiB", volume, size, giB).
				WithHint("choose the size by --volume-size")
		}
	}
	return nil
}

func sizesOf(spec map[string]any) map[string]string {
	sizes := map[string]string{}
	volumes, _, _ := unstructured.NestedSlice(spec, "template", "spec", "volumes")
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		name, _ := volume["name"].(string)
		size, _ := volume["storage"].(string)
		sizes[name] = size
	}
	return sizes
}
