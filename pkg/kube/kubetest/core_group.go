package kubetest

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
)

// suffixLength is that of the random end of an instance's name.
const suffixLength = 6

// reconcileGroup has a group have as many instances as it should, all from its template: one step at a time.
func (o *Operator) reconcileGroup(c *clusterState, cl coreCluster, k coreKind, g object) {
	instances := o.byLabels(cl, k, meta(g).GetName())
	if meta(g).GetDeletionTimestamp() != nil {
		for _, in := range instances {
			_, _ = o.store.remove(resourceNamed(k.instances), cl.name.Namespace, meta(in).GetName(), metav1.DeleteOptions{})
		}
		if len(instances) == 0 {
			o.change(k.groups, g, func(m *unstructured.Unstructured) { m.SetFinalizers(nil) })
		}
		return
	}
	o.change(k.groups, g, func(m *unstructured.Unstructured) { m.SetFinalizers([]string{coreFinalizer}) })
	o.ensureServices(k, g)
	revision := revisionOf(g)
	var live []object
	for _, in := range instances {
		if offline, _, _ := unstructured.NestedBool(in, "spec", "offline"); !offline && meta(in).GetDeletionTimestamp() == nil {
			live = append(live, in)
		}
	}
	replicas, _, _ := unstructured.NestedInt64(g, "spec", "replicas")
	switch {
	case int64(len(live)) < replicas:
		for range replicas - int64(len(live)) {
			live = append(live, o.addInstance(k, g, revision, live))
		}
	case int64(len(live)) > replicas:
		o.scaleIn(k, live[len(live)-1])
	default:
		o.updateOne(k, g, revision, live)
	}
	if k.component == "pd" && c.pd.started {
		o.founded(k, g, live)
	}
	o.writeGroupStatus(cl, k, g, revision)
}

// byLabels lists a group's instances, regardless of their creator and of the owner that they name.
func (o *Operator) byLabels(cl coreCluster, k coreKind, group string) []object {
	list, _ := o.store.list(k.instances, cl.name.Namespace)
	var found []object
	for _, in := range list {
		labels := meta(in).GetLabels()
		if labels[managedByLabel] == managedBy && labels[clusterLabel] == cl.name.Name && labels[groupLabel] == group && labels[componentLabel] == k.component {
			found = append(found, in)
		}
	}
	return found
}

// revisionOf names the state of a group's template.
func revisionOf(g object) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(jsonText(nested(nested(g, "spec"), "template"))))
	return fmt.Sprintf("%s-%08x", meta(g).GetName(), h.Sum32())
}

// instanceOfGroup is what an instance is by the group's template. Its subdomain is the group's headless service, or that of the
// whole Cluster with the feature gate ClusterSubdomain.
func (o *Operator) instanceOfGroup(k coreKind, g object, revision string) (spec object, labels map[string]string) {
	from := nested(g, "spec")
	template := nested(from, "template")
	spec = clone(nested(template, "spec"))
	spec["cluster"], spec["subdomain"] = from["cluster"], headless(k, meta(g).GetName())
	of := nestedText(g, "spec", "cluster", "name")
	cl, _ := o.store.get(coreClusters, meta(g).GetNamespace(), of)
	if gates, _, _ := unstructured.NestedSlice(cl, "spec", "featureGates"); slices.ContainsFunc(gates, func(gate any) bool {
		return nestedText(gate, "name") == "ClusterSubdomain"
	}) {
		spec["subdomain"] = of + "-cluster"
	}
	labels, _, _ = unstructured.NestedStringMap(template, "metadata", "labels")
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		managedByLabel: managedBy, componentLabel: k.component, clusterLabel: of, groupLabel: meta(g).GetName(), revisionLabel: revision,
	})
	return spec, labels
}

func headless(k coreKind, group string) string { return group + "-" + k.component + "-peer" }

// addInstance makes one more instance, of a random name. A quota that is used up is in the log alone.
func (o *Operator) addInstance(k coreKind, g object, revision string, live []object) object {
	spec, labels := o.instanceOfGroup(k, g, revision)
	if k.component == "tikv" {
		spec["offline"] = false
	}
	if topology := nextTopology(g, live); topology != nil {
		spec["topology"] = topology
	}
	m := meta(object{"apiVersion": coreGroup + "/v1alpha1", "kind": k.instance, "spec": spec})
	m.SetNamespace(meta(g).GetNamespace())
	m.SetName(meta(g).GetName() + "-" + rand.String(suffixLength))
	m.SetLabels(labels)
	m.SetFinalizers([]string{coreFinalizer})
	m.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(meta(g), meta(g).GroupVersionKind())})
	if founded, _, _ := unstructured.NestedBool(g, "spec", "bootstrapped"); k.component == "pd" && !founded {
		replicas, _, _ := unstructured.NestedInt64(g, "spec", "replicas")
		m.SetAnnotations(map[string]string{foundersAnnotation: fmt.Sprint(replicas)})
	}
	if _, err := o.store.create(resourceNamed(k.instances), m.Object, false); err != nil {
		o.log(fmt.Sprintf("cannot create an instance of %s %s: %s", k.group, meta(g).GetName(), err))
	}
	return m.Object
}

// nextTopology is the one of the group's that the fewest instances have; nil if it asks for none.
func nextTopology(g object, live []object) object {
	policies, _, _ := unstructured.NestedSlice(g, "spec", "schedulePolicies")
	var best object
	fewest := len(live) + 1
	for _, p := range policies {
		policy, _ := p.(object)
		list, _, _ := unstructured.NestedSlice(policy, "evenlySpread", "topologies")
		for _, t := range list {
			spread, _ := t.(object)
			topology, n := nested(spread, "topology"), 0
			for _, in := range live {
				if jsonText(nested(nested(in, "spec"), "topology")) == jsonText(topology) {
					n++
				}
			}
			if n < fewest {
				best, fewest = topology, n
			}
		}
	}
	return best
}

// scaleIn takes an instance away: a store is first set offline, so that its data move.
func (o *Operator) scaleIn(k coreKind, in object) {
	if k.component != "tikv" {
		_, _ = o.store.remove(resourceNamed(k.instances), meta(in).GetNamespace(), meta(in).GetName(), metav1.DeleteOptions{})
		return
	}
	o.change(k.instances, in, setOffline)
}

func setOffline(m *unstructured.Unstructured) { nested(m.Object, "spec")["offline"] = true }

// updateOne updates one outdated instance to the template. Its name and its immutable fields stay, and so does its pod.
func (o *Operator) updateOne(k coreKind, g object, revision string, live []object) {
	for _, in := range live {
		if meta(in).GetLabels()[revisionLabel] == revision {
			continue
		}
		spec, labels := o.instanceOfGroup(k, g, revision)
		if was := nestedText(in, "spec", "subdomain"); spec["subdomain"] != was {
			o.log(fmt.Sprintf("cannot update %s %s from subdomain %s to %s: field is immutable", k.instance, meta(in).GetName(), was, spec["subdomain"]))
			return
		}
		o.change(k.instances, in, func(m *unstructured.Unstructured) {
			for _, field := range []string{"topology", "cluster", "features", "offline"} {
				copyField(spec, nested(m.Object, "spec"), field)
			}
			m.Object["spec"] = spec
			all := m.GetLabels()
			maps.Copy(all, labels)
			m.SetLabels(all)
		})
		return
	}
}

// founded marks a PDGroup whose PD is there as bootstrapped, and its members as founders no longer.
func (o *Operator) founded(k coreKind, g object, live []object) {
	o.change(k.groups, g, func(m *unstructured.Unstructured) { nested(m.Object, "spec")["bootstrapped"] = true })
	for _, in := range live {
		if !isTrue(in, "Ready") {
			continue
		}
		o.change(k.instances, in, func(m *unstructured.Unstructured) {
			annotations := m.GetAnnotations()
			delete(annotations, foundersAnnotation)
			m.SetAnnotations(annotations)
		})
	}
}

// ensureServices makes the headless service of a group, and the one that PD's clients use.
func (o *Operator) ensureServices(k coreKind, g object) {
	names := []string{headless(k, meta(g).GetName())}
	if k.component == "pd" {
		names = append(names, meta(g).GetName()+"-pd")
	}
	for _, name := range names {
		if _, exists := o.store.peek(services, meta(g).GetNamespace(), name); exists {
			continue
		}
		o.create(services, &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: meta(g).GetNamespace(),
				Labels: map[string]string{
					managedByLabel: managedBy, componentLabel: k.component, groupLabel: meta(g).GetName(),
					clusterLabel: nestedText(g, "spec", "cluster", "name"),
				},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(meta(g), meta(g).GroupVersionKind())},
			},
		})
	}
}

// writeGroupStatus counts a group's instances. Its current revision becomes the update's when all of them have it.
func (o *Operator) writeGroupStatus(cl coreCluster, k coreKind, g object, revision string) {
	instances := o.byLabels(cl, k, meta(g).GetName())
	var ready, updated, current int64
	was := nestedText(g, "status", "currentRevision")
	for _, in := range instances {
		if isTrue(in, "Ready") {
			ready++
		}
		if meta(in).GetLabels()[revisionLabel] == revision {
			updated++
		}
		if meta(in).GetLabels()[revisionLabel] == was {
			current++
		}
	}
	o.change(k.groups, g, func(m *unstructured.Unstructured) {
		want, _, _ := unstructured.NestedInt64(m.Object, "spec", "replicas")
		all := int64(len(instances))
		status := nested(m.Object, "status")
		status["observedGeneration"], status["observedClusterGeneration"] = m.GetGeneration(), meta(cl.obj).GetGeneration()
		status["selector"] = fmt.Sprintf("%s=%s,%s=%s,%s=%s", clusterLabel, cl.name.Name, componentLabel, k.component, groupLabel, m.GetName())
		status["replicas"], status["currentReplicas"] = all, current
		status["readyReplicas"], status["updatedReplicas"] = ready, updated
		status["updateRevision"] = revision
		if was == "" || updated == all && all == want {
			status["currentRevision"], status["currentReplicas"] = revision, updated
			status["version"] = nestedText(m.Object, "spec", "template", "spec", "version")
		}
		is := []condition{{"Ready", ready == want && all == want, "Ready"}, {"Synced", updated == all && all == want, "Synced"}}
		if k.component == "tidb" {
			is = append(is, condition{"Available", ready > 0, "TiDBGroupAvailable"})
		}
		status["conditions"] = o.conditions(status, m.GetGeneration(), is...)
		m.Object["status"] = status
	})
}
