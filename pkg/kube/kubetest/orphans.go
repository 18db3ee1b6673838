package kubetest

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// setLives reports whether the StatefulSet of TiKV is there and not being deleted.
func (o *Operator) setLives(spec clusterSpec) bool {
	set, exists := typed[appsv1.StatefulSet](o.store, statefulSets, spec.name.Namespace, spec.name.Name+"-tikv")
	return exists && set.DeletionTimestamp == nil
}

// collectUnknown collects for clusters that went before the Operator saw them.
func (o *Operator) collectUnknown() {
	known := map[types.UID]bool{}
	for _, c := range o.clusters {
		known[c.uid] = true
	}
	if s, ok := o.store.(*store); ok {
		s.collectUnless(known)
		o.collectPods()
	}
}

// collectPods drops the pods whose StatefulSet is gone: one that its controller made in the moment in which that was deleted. The
// garbage collector does so with objects whose owner is not there.
func (o *Operator) collectPods() {
	r, _ := resourceByKind("Pod")
	for _, obj := range o.store.peekAll(pods, "") {
		owner := metav1.GetControllerOf(meta(obj))
		if owner == nil || owner.Kind != "StatefulSet" {
			continue
		}
		set, exists := o.store.peek(statefulSets, meta(obj).GetNamespace(), owner.Name)
		if !exists || meta(set).GetUID() != owner.UID {
			_, _ = o.store.remove(r, meta(obj).GetNamespace(), meta(obj).GetName(), metav1.DeleteOptions{})
		}
	}
}

// makeAgain does what the StatefulSet controller does for a StatefulSet whose TidbCluster is gone, until it goes too: pods
// that are missing are made again, with claims for those that do not run, and the CSI driver makes volumes for these.
func (o *Operator) makeAgain(ctx context.Context, c *clusterState) {
	spec := c.last
	if o.objects.controlled || !o.setLives(spec) {
		return
	}
	var pending []string
	for _, ordinal := range spec.ordinals() {
		name := spec.pod("tikv", ordinal)
		pod, exists := typed[corev1.Pod](o.store, pods, spec.name.Namespace, name)
		if !exists {
			pod = o.createTiKVPod(spec, name, ordinal)
		}
		if pod.Status.Phase == corev1.PodPending {
			o.ensureClaims(spec, name)
			pending = append(pending, name)
		}
	}
	all, _ := o.store.list(nodes, "")
	if len(all) == 0 || c.made.running() {
		return
	}
	node := mustTyped[corev1.Node](all[0])
	c.made = o.start(ctx, func(ctx context.Context) error {
		for _, pod := range pending {
			if err := o.provision(ctx, spec, pod, &node); err != nil {
				return err
			}
		}
		return nil
	})
}
