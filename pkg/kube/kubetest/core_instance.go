package kubetest

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// manyRegions is from how many regions on a store without a leader is not ready.
const manyRegions = 100

// instance is one of a component, with what the names and labels of its objects follow from.
type instance struct {
	coreKind
	obj   object
	m     *unstructured.Unstructured // obj
	group string
	pod   string
}

func newInstance(k coreKind, obj object) instance {
	m := meta(obj)
	dash := strings.LastIndex(m.GetName(), "-")
	return instance{
		coreKind: k, obj: obj, m: m, group: m.GetLabels()[groupLabel],
		pod: m.GetName()[:max(dash, 0)] + "-" + k.component + "-" + m.GetName()[dash+1:],
	}
}

// object is the metadata of an object of the instance.
func (in instance) object(cl coreCluster, name string) metav1.ObjectMeta {
	labels := map[string]string{}
	maps.Copy(labels, in.m.GetLabels())
	maps.Copy(labels, map[string]string{
		instanceOfLabel: in.m.GetName(), "app.kubernetes.io/component": in.component, instanceLabel: cl.name.Name,
		"app.kubernetes.io/managed-by": managedBy, "app.kubernetes.io/name": "tidb-cluster",
	})
	return metav1.ObjectMeta{
		Name: name, Namespace: cl.name.Namespace, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(in.m, in.m.GroupVersionKind())},
	}
}

// runStores is the kubelet of a cluster's stores: it starts what has a pod, and stops what no longer has one.
func (o *Operator) runStores(ctx context.Context, c *clusterState, cl coreCluster) {
	for pod := range c.pods {
		o.current(ctx, c, cl.name, pod)
	}
	k := coreKinds()[1]
	for _, obj := range o.ofCluster(cl, k.instances) {
		in := newInstance(k, obj)
		spec, err := in.store(cl)
		if err != nil {
			o.log(fmt.Sprintf("TiKV %s: %s", in.m.GetName(), err))
			continue
		}
		if pod, exists, ended := o.current(ctx, c, cl.name, in.pod); exists && ended {
			o.runPod(ctx, c, spec, 0, &pod)
		}
	}
}

// store is what the kubelet reads of a TiKV.
func (in instance) store(cl coreCluster) (clusterSpec, error) {
	s := clusterSpec{
		name: cl.name, instance: cl.name.Name, uid: cl.uid, tls: cl.tls, secrets: in.group, core: true,
		images: map[string]string{in.component: in.image()},
	}
	config := nestedText(in.obj, "spec", "config")
	list, _, _ := unstructured.NestedSlice(in.obj, "spec", "volumes")
	for _, v := range list {
		volume, _ := v.(object)
		size, err := giB(nestedText(volume, "storage"))
		if err != nil {
			return s, err
		}
		t := volumeTemplate{name: nestedText(volume, "name"), class: nestedText(volume, "storageClassName"), sizeGiB: size}
		mounts, _, _ := unstructured.NestedSlice(volume, "mounts")
		for _, m := range mounts {
			t.mountPath = nestedText(m, "mountPath")
			if t.mountPath == "" && nestedText(m, "type") == "data" {
				t.mountPath = "/var/lib/tikv"
			}
			if t.role, err = operator1.VolumeRole(config, t.mountPath); err != nil {
				return s, err
			}
			if nestedText(m, "type") == "data" {
				t.role = cluster.RoleData
				break
			}
		}
		s.volumes = append(s.volumes, t)
	}
	return s, nil
}

func (in instance) image() string {
	image := nestedText(in.obj, "spec", "image")
	if image == "" {
		image = "pingcap/" + in.component
	}
	if strings.Contains(image, ":") {
		return image
	}
	return image + ":" + nestedText(in.obj, "spec", "version")
}

// reconcileInstance keeps the objects of an instance: ConfigMap, claims, pod and labels, in this order.
func (o *Operator) reconcileInstance(ctx context.Context, c *clusterState, cl coreCluster, k coreKind, obj object) {
	in := newInstance(k, obj)
	if metav1.GetControllerOf(in.m) == nil {
		o.log(fmt.Sprintf("Observed a panic: invalid memory address or nil pointer dereference: %s %s", k.instance, in.m.GetName()))
		return
	}
	registered := nestedText(obj, "status", "id") != ""
	switch gone := in.m.GetDeletionTimestamp() != nil; {
	case cl.deleting, gone && !(k.component == "tikv" && registered):
		o.dropInstance(ctx, c, cl, in)
		return
	case k.component != "pd" && cl.pd == "":
		return
	case gone: // for ever, as nothing moves its data away
		o.change(k.instances, obj, setOffline)
	default:
		o.change(k.instances, obj, func(m *unstructured.Unstructured) { m.SetFinalizers([]string{coreFinalizer}) })
	}
	o.create("configmaps", &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: in.object(cl, in.pod), Data: map[string]string{"config-file": nestedText(obj, "spec", "config")},
	})
	if k.component != "tikv" {
		o.reconcileMember(c, cl, in)
		return
	}
	spec, err := in.store(cl)
	if err != nil {
		return
	}
	for _, t := range spec.volumes {
		o.reconcileClaim(ctx, cl, in, t)
	}
	if _, exists := o.store.peek(pods, cl.name.Namespace, in.pod); !exists {
		o.create(pods, o.storePod(cl, in, spec))
	}
	o.labelOwn(cl, in, spec)
	o.writeStoreStatus(c, cl, in)
}

// dropInstance takes away all that an instance has, claims too, and then the instance.
func (o *Operator) dropInstance(ctx context.Context, c *clusterState, cl coreCluster, in instance) {
	o.deletePod(cl.name.Namespace, in.pod)
	if c.pods[in.pod] != nil || !o.detached(ctx, c, cl.name, in.pod) {
		return
	}
	for _, res := range []string{"configmaps", claims} {
		list, _ := o.store.list(res, cl.name.Namespace)
		for _, obj := range list {
			if meta(obj).GetLabels()[instanceOfLabel] == in.m.GetName() {
				_, _ = o.store.remove(resourceNamed(res), cl.name.Namespace, meta(obj).GetName(), metav1.DeleteOptions{})
			}
		}
	}
	o.change(in.instances, in.obj, func(m *unstructured.Unstructured) { m.SetFinalizers(nil) })
	_, _ = o.store.remove(resourceNamed(in.instances), cl.name.Namespace, in.m.GetName(), metav1.DeleteOptions{})
}

// newCorePod is a pod of an instance.
func (o *Operator) newCorePod(cl coreCluster, in instance) *corev1.Pod {
	topology, _, _ := unstructured.NestedStringMap(in.obj, "spec", "topology")
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: in.object(cl, in.pod),
		Spec: corev1.PodSpec{
			Hostname: in.pod, Subdomain: nestedText(in.obj, "spec", "subdomain"), NodeSelector: topology,
			Containers: []corev1.Container{{
				Name: in.component, Image: in.image(),
				VolumeMounts: []corev1.VolumeMount{{Name: "ti-config", MountPath: "/etc/" + in.component}},
			}},
			Volumes: []corev1.Volume{{Name: "ti-config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: in.pod}},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if cl.tls {
		name := fmt.Sprintf("%s-%s-cluster-secret", in.group, in.component)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "ti-cluster-tls", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: name},
		}})
	}
	return pod
}

// storePod is one of TiKV, with its claims mounted and a grace period that is as good as endless.
func (o *Operator) storePod(cl coreCluster, in instance, spec clusterSpec) *corev1.Pod {
	pod := o.newCorePod(cl, in)
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	*pod.Spec.TerminationGracePeriodSeconds = tikvGrace
	container := &pod.Spec.Containers[0]
	for _, t := range spec.volumes {
		name := "ti-vol-" + t.name
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: t.mountPath})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: t.claim(in.pod)},
		}})
	}
	return pod
}

// reconcileMember keeps the pod of a member of PD or TiDB, whose processes are started all together, and its status.
func (o *Operator) reconcileMember(c *clusterState, cl coreCluster, in instance) {
	pod, exists := typed[corev1.Pod](o.store, pods, cl.name.Namespace, in.pod)
	if !exists {
		made := o.newCorePod(cl, in)
		if all, _ := o.store.list(nodes, ""); len(all) > 0 {
			made.Spec.NodeName = meta(all[0]).GetName()
		}
		pod = mustTyped[corev1.Pod](o.create(pods, made))
	}
	if why := o.missingSecret(clusterSpec{name: cl.name, tls: cl.tls, secrets: in.group}, in.component); why != "" {
		o.podEvent(&pod, "FailedMount", why)
		return
	}
	ready, status := c.pd.started, object{}
	if in.component == "pd" {
		first := o.ofCluster(cl, in.instances)[0]
		status["id"], status["isLeader"] = string(in.m.GetUID()), meta(first).GetUID() == in.m.GetUID()
	}
	if in.component == "tidb" {
		ready = c.tidb.started && o.runtime.TiDBReady(cl.name) >= c.tidb.replicas
	}
	o.setPodRunning(cl.name.Namespace, in.pod, ready, "", 0)
	o.writeInstanceStatus(cl, in, status, condition{"Synced", true, "Synced"}, condition{"Running", true, "Running"}, condition{"Ready", ready, "Ready"})
}
