package operator2

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// Target is the cluster that a restore creates.
type Target struct {
	Name   cluster.Name
	Run    cluster.RunID
	Stores []TargetStore
	// Changes are the user's; sizes and the number of stores are the restore's.
	Changes Changes
}

// TargetStore is a store of the target, which has the volumes of one of the source's.
type TargetStore struct {
	Pod     string // of the source's store
	Ordinal int    // of the source's store, in the order of the backup's
	Zone    cluster.Zone
	Volumes map[string]TargetVolume // all of the store's, by the volume's name in its TiKVGroup
}

// TargetVolume is a volume of a target.
type TargetVolume struct {
	PV      string // its name; the persistent volume need not exist yet
	SizeGiB int64
}

// Made are a target's objects in the order in which they are created. Their labels and annotations are not the
// source's: the tool that deployed it does not own its copy.
type Made struct {
	// Cluster is paused: the Operator acts on nothing of it, so that what follows can be created in any time.
	Cluster *unstructured.Unstructured
	// Early are the groups of PD and TiKV, and Late those that are created once the data are resolved.
	Early, Late []*unstructured.Unstructured
	Stores      []MadeStore
	// Dropped are the source's settings that were removed, as paths in the Cluster's spec.
	Dropped []string
	// Configs are those of the groups of TiKV.
	Configs []Config
}

// MadeStore is an instance of a target. Without its group as the controlling owner the Operator fails on it, and its
// claims go with it if it is theirs; both are known only once they are created.
type MadeStore struct {
	Group  string
	TiKV   *unstructured.Unstructured
	Claims []*corev1.PersistentVolumeClaim
}

// Lengths that the Operator's definitions allow.
const (
	maxCluster  = 37
	maxGroup    = 40
	maxInstance = 47
)

const (
	managedByLabel = "pingcap.com/managed-by"
	managedBy      = "tidb-operator"
	instanceLabel  = "pingcap.com/instance"
	volumeLabel    = "pingcap.com/volume-name"
	finalizer      = "pingcap.com/finalizer"
)

// Make turns the source's recorded objects into the target's. Groups are named after the target, as it may be in the
// source's namespace; instances keep the random ends of their names. A group has one instance for each store of the
// backup, and in its template the sizes of their volumes: the Operator would modify a volume of another size.
// Corrupt if a recorded object is unreadable or missing, Usage if a name becomes too long, the sizes of one group
// differ, or with the user's changes its stores could not open the volumes.
func Make(recorded []json.RawMessage, to Target) (*Made, error) {
	m := &maker{to: to, stores: map[string][]*unstructured.Unstructured{}}
	if err := m.read(recorded); err != nil {
		return nil, err
	}
	if err := checkName("Cluster", to.Name.Name, maxCluster); err != nil {
		return nil, err
	}
	if to.Changes.Smallest {
		if err := m.shrink(); err != nil {
			return nil, err
		}
	}
	if err := m.readChanges(to.Changes); err != nil {
		return nil, err
	}
	if err := m.makeCluster(); err != nil {
		return nil, err
	}
	for _, from := range m.groups {
		if err := m.makeGroup(from); err != nil {
			return nil, err
		}
	}
	if err := m.addGroups(); err != nil {
		return nil, err
	}
	if len(m.made.Stores) != len(to.Stores) {
		return nil, m.corrupt("%d of its %d stores are recorded", len(m.made.Stores), len(to.Stores))
	}
	if err := saveLate(m.made.Cluster, m.made.Late); err != nil {
		return nil, err
	}
	return &m.made, nil
}

type maker struct {
	to      Target
	cluster *unstructured.Unstructured
	groups  []*unstructured.Unstructured
	stores  map[string][]*unstructured.Unstructured // by group
	changes changes
	made    Made
}

const (
	makeCluster = "make cluster"
	clusterKind = "Cluster"
)

func (m *maker) corrupt(format string, args ...any) error {
	return failure.New(failure.Corrupt, makeCluster, m.to.Name.String(), format, args...)
}

func (m *maker) read(recorded []json.RawMessage) error {
	for _, raw := range recorded {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw); err != nil {
			return failure.Wrap(err, failure.Corrupt, makeCluster, m.to.Name.String())
		}
		switch kind := o.GetKind(); {
		case kind == clusterKind:
			m.cluster = o
		case kind == "TiKV":
			group := o.GetLabels()[groupLabel]
			m.stores[group] = append(m.stores[group], o)
		case strings.HasSuffix(kind, "Group"):
			m.groups = append(m.groups, o)
		}
	}
	if m.cluster == nil || len(m.groups) == 0 {
		return m.corrupt("its Cluster or its groups are not recorded")
	}
	return nil
}

func checkName(kind, name string, most int) error {
	if len(name) <= most {
		return nil
	}
	return failure.New(failure.Usage, makeCluster, name, "the name of the %s has %d characters, at most %d are allowed",
		kind, len(name), most).
		WithHint("choose a shorter name for --to")
}

// object returns an object of the target.
func (m *maker) object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(GroupVersion)
	o.SetKind(kind)
	o.SetNamespace(m.to.Name.Namespace)
	o.SetName(name)
	runmark.Put(o, m.to.Run)
	return o
}

func (m *maker) makeCluster() error {
	spec, there, err := m.changes.apply(clusterKind, m.to.Name.Name, specOf(m.cluster))
	if err != nil {
		return err
	}
	if !there {
		return m.changes.refuse("it has no Cluster %s", m.to.Name.Name)
	}
	// bootstrapSQL would run on the restored data, the others would never let it come up, or are the source's own.
	for _, field := range []string{"bootstrapSQL", "suspendAction", "customizedPDServiceName"} {
		if _, has := spec[field]; has {
			m.made.Dropped = append(m.made.Dropped, "spec."+field)
			delete(spec, field)
		}
	}
	spec["paused"] = true
	m.made.Cluster = m.object("Cluster", m.to.Name.Name, spec)
	annotations := m.made.Cluster.GetAnnotations()
	annotations[recoveringKey] = "true"
	m.made.Cluster.SetAnnotations(annotations)
	return nil
}

func configOf(group map[string]any) string {
	config, _, _ := unstructured.NestedString(group, "template", "spec", "config")
	return config
}

func specOf(o *unstructured.Unstructured) map[string]any {
	spec, _ := o.Object["spec"].(map[string]any)
	if spec == nil {
		return map[string]any{}
	}
	return runtime.DeepCopyJSON(spec)
}

// groupName replaces the source's name at the beginning of a group's by the target's, or puts it there.
func groupName(source, target, group string) string {
	own := strings.TrimPrefix(group, source)
	if own == "" || own != group && own[0] == '-' {
		return target + own
	}
	return target + "-" + group
}

func (m *maker) makeGroup(from *unstructured.Unstructured) error {
	kind, name := from.GetKind(), groupName(m.cluster.GetName(), m.to.Name.Name, from.GetName())
	if err := checkName(kind, name, maxGroup); err != nil {
		return err
	}
	if slices.ContainsFunc(slices.Concat(m.made.Early, m.made.Late), func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && o.GetName() == name
	}) {
		return failure.New(failure.Usage, makeCluster, m.to.Name.String(), "two %ss would have the name %s", kind,
			name).
			WithHint("choose a longer name for --to, which no group of the source begins with")
	}
	spec, there, err := m.changes.apply(kind, name, specOf(from))
	switch {
	case err != nil:
		return err
	case !there && (kind == tikvGroupKind || kind == pdGroupKind):
		return m.changes.refuse("it has no %s %s", kind, name)
	case !there:
		return nil // the user's cluster has no such group
	}
	spec["cluster"] = map[string]any{"name": m.to.Name.Name}
	delete(spec, "bootstrapped") // of a PDGroup: the target's PD is founded again
	group := m.object(kind, name, spec)
	switch kind {
	case tikvGroupKind:
		if err := m.makeStores(from, group); err != nil {
			return err
		}
		m.made.Early = append(m.made.Early, group)
	case pdGroupKind:
		m.made.Early = append(m.made.Early, group)
	default:
		m.made.Late = append(m.made.Late, group)
	}
	return nil
}

// addGroups adds the groups that only the user's manifest has, which come last.
func (m *maker) addGroups() error {
	for _, own := range m.changes.added() {
		kind, name := own.GetKind(), own.GetName()
		if kind == clusterKind || kind == tikvGroupKind || kind == pdGroupKind {
			return m.changes.refuse("the backup has nothing for its %s %s", kind, name)
		}
		if err := checkName(kind, name, maxGroup); err != nil {
			return err
		}
		spec, _, err := m.changes.apply(kind, name, nil)
		if err != nil {
			return err
		}
		spec["cluster"] = map[string]any{"name": m.to.Name.Name}
		m.made.Late = append(m.made.Late, m.object(kind, name, spec))
	}
	return m.changes.unused()
}

// makeStores makes the instances of a group of TiKV, and has the group's template be theirs.
func (m *maker) makeStores(source, group *unstructured.Unstructured) error {
	type pair struct {
		from *unstructured.Unstructured
		to   TargetStore
	}
	var stores []pair
	for _, from := range m.stores[source.GetName()] {
		i := slices.IndexFunc(m.to.Stores, func(s TargetStore) bool { return s.Pod == podName(from.GetName()) })
		if i >= 0 {
			stores = append(stores, pair{from, m.to.Stores[i]})
		}
	}
	spec, _ := group.Object["spec"].(map[string]any) // object has made it
	if err := checkData(group.GetName(), specOf(source), spec, len(stores)); err != nil {
		return err
	}
	for _, s := range stores {
		if err := checkSizes(group.GetName(), specOf(source), spec, s.to); err != nil {
			return err
		}
	}
	m.made.Configs = append(m.made.Configs, Config{group.GetName(), configOf(specOf(source)), configOf(spec)})
	spec["replicas"] = int64(len(stores))
	template, _, _ := unstructured.NestedMap(spec, "template", "spec")
	for _, s := range stores {
		if err := setSizes(group.GetName(), template, s.to, s.to.Pod == stores[0].to.Pod); err != nil {
			return err
		}
	}
	if len(stores) > 0 {
		if err := unstructured.SetNestedMap(spec, template, "template", "spec"); err != nil {
			return failure.Wrap(err, failure.Corrupt, makeCluster, group.GetName())
		}
	}
	for _, s := range stores {
		made, err := m.makeStore(s.from, s.to, group, template)
		if err != nil {
			return err
		}
		m.made.Stores = append(m.made.Stores, made)
	}
	return nil
}

// setSizes sets the sizes of a group's volumes to those of its first store, and refuses another store's if they differ.
func setSizes(group string, template map[string]any, s TargetStore, first bool) error {
	list, _, _ := unstructured.NestedSlice(template, "volumes")
	for _, v := range list {
		volume, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(volume, "name")
		restored, ok := s.Volumes[name]
		if !ok || restored.PV == "" || restored.SizeGiB <= 0 {
			return failure.New(failure.Corrupt, makeCluster, group, "the backup has no volume %s of pod %s", name,
				s.Pod)
		}
		size := fmt.Sprintf("%dGi", restored.SizeGiB)
		if was := volume["storage"]; !first && was != size {
			return failure.New(failure.Usage, makeCluster, group,
				"its volumes %s would have %s and, of pod %s, %s, and the Operator would modify some", name, was,
				s.Pod, size).
				WithHint("give all volumes of the group one size")
		}
		volume["storage"] = size
	}
	if len(list) != len(s.Volumes) {
		return failure.New(failure.Corrupt, makeCluster, group,
			"its stores have %d volumes, and pod %s of the backup has %d", len(list), s.Pod, len(s.Volumes))
	}
	return unstructured.SetNestedSlice(template, list, "volumes")
}

func (m *maker) makeStore(
	from *unstructured.Unstructured, to TargetStore, group *unstructured.Unstructured, template map[string]any,
) (MadeStore, error) {
	name := group.GetName() + from.GetName()[strings.LastIndex(from.GetName(), "-"):]
	if err := checkName("TiKV", name, maxInstance); err != nil {
		return MadeStore{}, err
	}
	spec := runtime.DeepCopyJSON(template)
	spec["cluster"] = map[string]any{"name": m.to.Name.Name}
	source := specOf(from)
	spec["offline"] = false
	spec["subdomain"] = group.GetName() + "-" + tikv + "-peer"
	if source["subdomain"] == subdomainOf(m.cluster.GetName()) {
		spec["subdomain"] = subdomainOf(m.to.Name.Name)
	}
	if features, has := source["features"]; has {
		spec["features"] = features
	}
	if topology, ok := source["topology"].(map[string]any); ok {
		if _, has := topology[corev1.LabelTopologyZone]; has {
			topology[corev1.LabelTopologyZone] = string(to.Zone)
		}
		if to.Zone == "" { // the volumes alone know where they are: no node has this label without a value
			delete(topology, corev1.LabelTopologyZone)
		}
		spec["topology"] = topology // it cannot be set later
	}
	labels, _, _ := unstructured.NestedStringMap(group.Object, "spec", "template", "metadata", "labels")
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		managedByLabel: managedBy, componentLabel: tikv, clusterLabel: m.to.Name.Name, groupLabel: group.GetName(),
	})
	o := m.object("TiKV", name, spec)
	o.SetLabels(labels)
	runmark.Put(o, m.to.Run)
	annotations := o.GetAnnotations()
	annotations[ordinalKey] = strconv.Itoa(to.Ordinal)
	o.SetAnnotations(annotations)
	o.SetFinalizers([]string{finalizer})
	store := MadeStore{Group: group.GetName(), TiKV: o}
	volumes, _, _ := unstructured.NestedSlice(spec, "volumes")
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		claim, err := m.makeClaim(o, volume, to)
		if err != nil {
			return MadeStore{}, err
		}
		store.Claims = append(store.Claims, claim)
	}
	return store, nil
}

// gate reports whether the Cluster has a feature gate of the Operator.
func (m *maker) gate(name string) bool {
	gates, _, _ := unstructured.NestedSlice(m.cluster.Object, "spec", "featureGates")
	return slices.ContainsFunc(gates, func(o any) bool {
		gate, _ := o.(map[string]any)
		return gate["name"] == name
	})
}

// subdomainOf returns the subdomain of all pods of a Cluster with the feature gate ClusterSubdomain; without it, each
// group's has one of its own. An instance keeps its subdomain for ever: with the other one the Operator could never
// update it.
func subdomainOf(cluster string) string { return cluster + "-cluster" }

// makeClaim makes the claim that the Operator adopts by its name: as it would be made from the template, which a
// volume must not differ from, except for a persistent volume of its own. It stays pending until that exists.
func (m *maker) makeClaim(
	instance *unstructured.Unstructured, volume map[string]any, to TargetStore,
) (*corev1.PersistentVolumeClaim, error) {
	name, _, _ := unstructured.NestedString(volume, "name")
	text, _, _ := unstructured.NestedString(volume, "storage")
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, makeCluster, instance.GetName())
	}
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-" + podName(instance.GetName()), Namespace: m.to.Name.Namespace,
			Labels: instance.GetLabels(),
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeName:  to.Volumes[name].PV,
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	maps.Copy(claim.Labels, map[string]string{
		instanceLabel: instance.GetName(), volumeLabel: name,
		"app.kubernetes.io/name": "tidb-cluster", "app.kubernetes.io/managed-by": managedBy,
		"app.kubernetes.io/component": tikv, "app.kubernetes.io/instance": m.to.Name.Name,
	})
	if class, has, _ := unstructured.NestedString(volume, "storageClassName"); has {
		claim.Spec.StorageClassName = &class
	}
	class, has, _ := unstructured.NestedString(volume, "volumeAttributesClassName")
	if has && m.gate("VolumeAttributesClass") { // without it, no claim of the Operator names one
		claim.Spec.VolumeAttributesClassName = &class
	}
	runmark.Put(claim, m.to.Run)
	return claim, nil
}
