package kubetest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// runMembers is the kubelet, and the CSI driver, of PD and TiDB of a cluster whose Operator is another process: it makes the
// volumes of their pods, starts what has a pod on a node, and writes their states into the pods.
func (o *Operator) runMembers(ctx context.Context, c *clusterState, cl coreCluster) {
	o.startMembers(ctx, c, cl)
	for _, k := range []coreKind{coreKinds()[0], coreKinds()[2]} {
		for _, obj := range o.ofCluster(cl, k.instances) {
			o.runMember(ctx, c, cl, newInstance(k, obj))
		}
	}
}

func (o *Operator) runMember(ctx context.Context, c *clusterState, cl coreCluster, in instance) {
	pod, exists := typed[corev1.Pod](o.store, pods, cl.name.Namespace, in.pod)
	if !exists {
		return
	}
	spec, err := in.store(cl)
	if err != nil {
		o.log(fmt.Sprintf("%s %s: %s", in.instance, in.m.GetName(), err))
		return
	}
	p := c.members[in.pod]
	if p == nil || p.uid != pod.UID {
		p = &podState{uid: pod.UID}
		c.members[in.pod] = p
	}
	if p.job.running() {
		return
	}
	o.takeResult(p, &pod)
	switch {
	case pod.Spec.NodeName == "":
		if !o.early(p.notBefore) {
			o.awaitScheduler(ctx, p, spec, &pod)
		}
		return
	case o.missingSecret(spec, in.component) != "":
		o.podEvent(&pod, "FailedMount", o.missingSecret(spec, in.component))
		return
	}
	ready := c.pd.started
	if in.component == "tidb" {
		ready = c.tidb.started && o.runtime.TiDBReady(cl.name) >= c.tidb.replicas
	}
	o.setPodRunning(cl.name.Namespace, in.pod, ready, "", 0)
}
