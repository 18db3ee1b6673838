package kubetest

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// ensureStatefulSet makes or resizes the StatefulSet of a component, owned by the TidbCluster.
func (o *Operator) ensureStatefulSet(spec clusterSpec, component string, replicas int) {
	name := spec.name.Name + "-" + component
	n := int32(replicas) //nolint:gosec // a replica count is small
	if _, exists := o.store.peek(statefulSets, spec.name.Namespace, name); exists {
		modify(o.store, statefulSets, spec.name.Namespace, name, func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n })
		return
	}
	yes := true
	labels := spec.labels(component)
	o.create(statefulSets, &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: spec.name.Namespace, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "pingcap.com/v1alpha1", Kind: "TidbCluster", Name: spec.name.Name, UID: spec.uid,
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &n, ServiceName: name + "-peer", PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       spec.podSpec(component),
			},
			VolumeClaimTemplates: spec.claimTemplates(component),
		},
	})
}

// podSpec is that of a component's template: the claims of a StatefulSet's pods are mounted by the names of its templates.
func (s clusterSpec) podSpec(component string) corev1.PodSpec {
	container := corev1.Container{Name: component, Image: s.images[component]}
	if component != "tikv" {
		return corev1.PodSpec{Containers: []corev1.Container{container}}
	}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/tikv", ReadOnly: true}}
	for _, t := range s.volumes {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: t.name, MountPath: t.mountPath})
	}
	return corev1.PodSpec{
		Containers: []corev1.Container{container},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.name.Name + "-tikv"}},
		}}},
	}
}

// claimTemplates are those of the volumes that each pod of a component has.
func (s clusterSpec) claimTemplates(component string) []corev1.PersistentVolumeClaim {
	if component != "tikv" {
		return nil
	}
	var all []corev1.PersistentVolumeClaim
	for _, t := range s.volumes {
		all = append(all, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: t.name, Labels: s.labels(component)},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &t.class,
				Resources: corev1.VolumeResourceRequirements{Requests: storage(t.sizeGiB)},
			},
		})
	}
	return all
}

// newPod makes a pod of a component as its StatefulSet would.
func (o *Operator) newPod(spec clusterSpec, component, name string, ordinal int) *corev1.Pod {
	yes := true
	labels := spec.labels(component)
	labels["statefulset.kubernetes.io/pod-name"] = name
	labels["apps.kubernetes.io/pod-index"] = strconv.Itoa(ordinal)
	set := spec.name.Name + "-" + component
	var owners []metav1.OwnerReference
	if s, exists := o.store.peek(statefulSets, spec.name.Namespace, set); exists {
		owners = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "StatefulSet", Name: set, UID: meta(s).GetUID(),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}}
	}
	template := spec.podSpec(component)
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: spec.name.Namespace, Labels: labels, OwnerReferences: owners},
		Spec: corev1.PodSpec{
			Hostname: name, Subdomain: set + "-peer",
			Containers: template.Containers, Volumes: template.Volumes,
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// createTiKVPod makes a TiKV pod with its claims mounted as the real Operator mounts them.
func (o *Operator) createTiKVPod(spec clusterSpec, name string, ordinal int) corev1.Pod {
	pod := o.newPod(spec, "tikv", name, ordinal)
	for _, t := range spec.volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: t.name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: t.claim(name)},
		}})
	}
	return mustTyped[corev1.Pod](o.create(pods, pod))
}

// ensureMembers keeps the pods of PD or TiDB; their processes are started all together.
func (o *Operator) ensureMembers(spec clusterSpec, component string, replicas int, ready bool) {
	all, _ := o.store.list(nodes, "")
	for n := range replicas {
		name := spec.pod(component, n)
		now, exists := typed[corev1.Pod](o.store, pods, spec.name.Namespace, name)
		if o.objects.controlled && now.Spec.NodeName == "" {
			continue // its StatefulSet makes it, and the scheduler puts it on a node
		}
		if !exists {
			pod := o.newPod(spec, component, name, n)
			if len(all) > 0 {
				pod.Spec.NodeName = meta(all[n%len(all)]).GetName()
			}
			o.create(pods, pod)
		}
		o.setPodRunning(spec.name.Namespace, name, ready, "", 0)
	}
}

func (o *Operator) deletePod(namespace, name string) {
	r, _ := resourceByKind("Pod")
	_, _ = o.store.remove(r, namespace, name, metav1.DeleteOptions{})
}

// schedule puts a pod on a node.
func (o *Operator) schedule(spec clusterSpec, pod *corev1.Pod, node string) {
	modify(o.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		o.setCondition(p, corev1.PodScheduled, corev1.ConditionTrue, "", "")
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "tikv", Image: spec.images["tikv"],
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		}}
	})
}

// unschedulable records why a pod waits, in its condition and by an event.
func (o *Operator) unschedulable(p *podState, pod *corev1.Pod, why string) {
	p.ready = false
	if p.why == why {
		return
	}
	p.why = why
	modify(o.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) {
		o.setCondition(p, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, why)
	})
	o.podEvent(pod, "FailedScheduling", why)
}

// setPodRunning writes the state of the pod's process.
func (o *Operator) setPodRunning(namespace, name string, ready bool, reason string, restarts int) {
	modify(o.store, pods, namespace, name, func(p *corev1.Pod) {
		container := p.Spec.Containers[0]
		status := corev1.ConditionFalse
		why := "ContainersNotReady"
		if ready {
			status, why, reason = corev1.ConditionTrue, "", ""
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.PodIP, p.Status.HostIP = "127.0.0.1", "127.0.0.1"
		o.setCondition(p, corev1.PodScheduled, corev1.ConditionTrue, "", "")
		o.setCondition(p, corev1.PodReady, status, why, reason)
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		if old := p.Status.ContainerStatuses; len(old) > 0 && old[0].State.Running != nil {
			state = old[0].State
		} else {
			state.Running.StartedAt = metav1.NewTime(o.now().UTC())
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, Ready: ready, State: state, RestartCount: int32(restarts)}} //nolint:gosec // a small count
	})
}

func (o *Operator) setCondition(p *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != kind {
			continue
		}
		if c.Status != status {
			c.LastTransitionTime = metav1.NewTime(o.now().UTC())
		}
		c.Status, c.Reason, c.Message = status, reason, message
		return
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(o.now().UTC()),
	})
}

// labelStore writes the store's and the cluster's id on its pod, claims and volumes, as the Operator's meta manager does.
func (o *Operator) labelStore(spec clusterSpec, pod *corev1.Pod, id cluster.StoreID) {
	if pod.Labels[storeIDLabel] == id.String() {
		return
	}
	ids := func(obj metav1.Object) {
		label(obj, storeIDLabel, id.String())
		label(obj, clusterIDLabel, clusterID(spec))
	}
	modify(o.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) { ids(p) })
	for _, t := range spec.volumes {
		pv := ""
		modify(o.store, claims, pod.Namespace, t.claim(pod.Name), func(c *corev1.PersistentVolumeClaim) {
			ids(c)
			label(c, podNameLabel, pod.Name)
			annotate(c, podNameLabel, pod.Name)
			pv = c.Spec.VolumeName
		})
		modify(o.store, volumes, "", pv, func(v *corev1.PersistentVolume) {
			ids(v)
			annotate(v, podNameLabel, pod.Name)
		})
	}
}
