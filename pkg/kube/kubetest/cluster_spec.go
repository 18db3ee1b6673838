package kubetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

const (
	instanceLabel          = "app.kubernetes.io/instance"
	volumesReadyAnnotation = "tidb.pingcap.com/tikv-volumes-ready"
	deleteSlotsAnnotation  = "tikv.tidb.pingcap.com/delete-slots"
)

// clusterSpec is what the Operator reads of a TidbCluster.
type clusterSpec struct {
	name           cluster.Name
	instance       string // the value of the instance label of everything that belongs to the cluster
	uid            types.UID
	version        string
	recovery       bool
	volumesReady   bool
	pd, tikv, tidb int
	images         map[string]string // by component
	volumes        []volumeTemplate
	deleteSlots    []int
	// failureStores is how many stores the Operator added since others failed.
	failureStores int
	// reclaim is the policy that the Operator gives to bound volumes.
	reclaim string
	tls     bool
	secrets string // what the names of its TLS secrets begin with
	core    bool   // it is of Operator 2.x
}

// volumeTemplate is a volume that each TiKV pod has.
type volumeTemplate struct {
	name      string // of the volume in the pod, and the beginning of the claim's name
	mountPath string
	role      cluster.Role
	class     string
	sizeGiB   int64
}

func (t volumeTemplate) claim(pod string) string { return t.name + "-" + pod }

// parseCluster reads a TidbCluster. An error is what the real Operator would put into its log.
func parseCluster(o object) (clusterSpec, error) {
	m := meta(o)
	s := clusterSpec{
		name: cluster.Name{Namespace: m.GetNamespace(), Name: m.GetName()}, uid: m.GetUID(), secrets: m.GetName(),
		images: map[string]string{"discovery": "pingcap/tidb-operator:v1.6.6"}, // the Operator's own
	}
	// As TidbCluster.GetInstanceName does: Helm and Argo CD set the label on the TidbCluster.
	s.instance = cmp.Or(m.GetLabels()[instanceLabel], m.GetName())
	s.reclaim, _, _ = unstructured.NestedString(o, "spec", "pvReclaimPolicy")
	s.reclaim = cmp.Or(s.reclaim, "Retain")
	s.tls, _, _ = unstructured.NestedBool(o, "spec", "tlsCluster", "enabled")
	failed, _, _ := unstructured.NestedMap(o, "status", "tikv", "failureStores")
	s.failureStores = len(failed)
	s.version, _, _ = unstructured.NestedString(o, "spec", "version")
	s.recovery, _, _ = unstructured.NestedBool(o, "spec", "recoveryMode")
	_, s.volumesReady = m.GetAnnotations()[volumesReadyAnnotation]
	for component, replicas := range map[string]*int{"pd": &s.pd, "tikv": &s.tikv, "tidb": &s.tidb} {
		n, _, _ := unstructured.NestedInt64(o, "spec", component, "replicas")
		*replicas = int(n)
		base, _, _ := unstructured.NestedString(o, "spec", component, "baseImage")
		s.images[component] = base + ":" + s.version
	}
	if text := m.GetAnnotations()[deleteSlotsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &s.deleteSlots); err != nil {
			return s, fmt.Errorf("annotation %s: %w", deleteSlotsAnnotation, err)
		}
	}
	return s, s.parseVolumes(o)
}

func (s *clusterSpec) parseVolumes(o object) error {
	class, _, _ := unstructured.NestedString(o, "spec", "tikv", "storageClassName")
	request, _, _ := unstructured.NestedString(o, "spec", "tikv", "requests", "storage")
	size, err := giB(request)
	if err != nil {
		return err
	}
	s.volumes = []volumeTemplate{{"tikv", "/var/lib/tikv", cluster.RoleData, class, size}}
	config, _, _ := unstructured.NestedFieldNoCopy(o, "spec", "tikv", "config")
	extra, _, _ := unstructured.NestedSlice(o, "spec", "tikv", "storageVolumes")
	for _, e := range extra {
		v, ok := e.(object)
		if !ok {
			return fmt.Errorf("spec.tikv.storageVolumes: %v is not an object", e)
		}
		name, _, _ := unstructured.NestedString(v, "name")
		path, _, _ := unstructured.NestedString(v, "mountPath")
		request, _, _ := unstructured.NestedString(v, "storageSize")
		t := volumeTemplate{name: "tikv-" + name, mountPath: path, class: class}
		if own, _, _ := unstructured.NestedString(v, "storageClassName"); own != "" {
			t.class = own
		}
		if t.sizeGiB, err = giB(request); err != nil {
			return err
		}
		if t.role, err = operator1.VolumeRole(config, path); err != nil {
			return err
		}
		s.volumes = append(s.volumes, t)
	}
	return nil
}

// ordinals are those of the TiKV pods: the first ones that are not in the delete slots. A failed store has another
// one made for it beside the replicas.
func (s clusterSpec) ordinals() []int {
	var list []int
	for n := 0; len(list) < s.tikv+s.failureStores; n++ {
		if !slices.Contains(s.deleteSlots, n) {
			list = append(list, n)
		}
	}
	return list
}

func (s clusterSpec) pod(component string, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", s.name.Name, component, ordinal)
}

// host is the DNS name that a store is known by.
func (s clusterSpec) host(pod *corev1.Pod) string {
	host := pod.Name + "." + pod.Spec.Subdomain + "." + pod.Namespace
	if s.core {
		return host
	}
	return host + ".svc"
}

// labels are those that the Operator gives to a component's objects.
func (s clusterSpec) labels(component string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/component":  component,
		instanceLabel:                  s.instance,
		"app.kubernetes.io/managed-by": "tidb-operator",
		"app.kubernetes.io/name":       "tidb-cluster",
	}
}

func giB(text string) (int64, error) {
	q, err := quantity.ParseQuantity(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", text, err)
	}
	const unit = 1 << 30
	return (q.Value() + unit - 1) / unit, nil
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
