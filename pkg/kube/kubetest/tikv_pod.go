package kubetest

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// stage is how far a TiKV pod has come.
type stage int

const (
	waiting  stage = iota // for its claims, a node, or the next try
	claiming              // its volumes are being made
	starting              // its volumes are being attached and its process launched
	running
	stopping
)

// podState is what the Operator remembers of a TiKV pod.
type podState struct {
	uid       types.UID
	stage     stage
	job       *job
	notBefore time.Time
	process   TiKVPod
	why       string // it was last found unschedulable
	ready     bool
	restarts  int // times that its process has exited on its own
	storeID   cluster.StoreID
}

// reconcileTiKV makes the pods that should exist and stops those that should not.
func (o *Operator) reconcileTiKV(ctx context.Context, c *clusterState, spec clusterSpec) {
	wanted := map[string]bool{}
	for _, ordinal := range spec.ordinals() {
		pod := spec.pod("tikv", ordinal)
		wanted[pod] = true
		o.reconcilePod(ctx, c, spec, ordinal, pod)
	}
	for pod, p := range c.pods {
		if !wanted[pod] {
			if !o.objects.controlled {
				o.deletePod(spec.name.Namespace, pod)
			}
			if o.stopped(ctx, spec.name, p) && o.detached(ctx, c, spec.name, pod) {
				delete(c.pods, pod)
			}
		}
	}
}

func (o *Operator) reconcilePod(ctx context.Context, c *clusterState, spec clusterSpec, ordinal int, name string) {
	obj, exists, ended := o.current(ctx, c, spec.name, name)
	if !ended || o.objects.controlled && !exists {
		return // its StatefulSet makes it
	}
	if !spec.recovery && !o.objects.controlled {
		o.ensureClaims(spec, name)
	}
	if !exists {
		obj = o.createTiKVPod(spec, name, ordinal)
	}
	o.runPod(ctx, c, spec, ordinal, &obj)
}

// current is the pod of that name. ended is false while the process of an earlier one of the name runs.
func (o *Operator) current(ctx context.Context, c *clusterState, of cluster.Name, name string) (obj corev1.Pod, exists, ended bool) {
	obj, exists = typed[corev1.Pod](o.store, pods, of.Namespace, name)
	if p := c.pods[name]; p != nil && (!exists || obj.UID != p.uid) {
		if !o.stopped(ctx, of, p) {
			return obj, exists, false
		}
		delete(c.pods, name)
	}
	return obj, exists, true
}

// runPod takes a pod that exists one step further.
func (o *Operator) runPod(ctx context.Context, c *clusterState, spec clusterSpec, ordinal int, obj *corev1.Pod) {
	p := c.pods[obj.Name]
	if p == nil {
		p = &podState{uid: obj.UID}
		c.pods[obj.Name] = p
	}
	if p.job.running() {
		return
	}
	o.takeResult(p, obj)
	switch p.stage {
	case waiting:
		o.admit(ctx, p, spec, ordinal, obj)
	case running:
		o.observe(p, spec, obj)
	case claiming, starting, stopping: // a job is at it
	}
}

// takeResult reads the end of a job; an error becomes an event, as a user would see it.
func (o *Operator) takeResult(p *podState, obj *corev1.Pod) {
	if p.job == nil {
		return
	}
	err := p.job.err
	p.job = nil
	was := p.stage
	if err == nil {
		p.stage = waiting
		if was == starting {
			p.stage = running
		}
		return
	}
	p.stage = waiting
	p.notBefore = o.now().Add(o.cfg.Retry)
	reason := "Failed"
	var attach attachError
	switch {
	case errors.As(err, &attach):
		reason = "FailedAttachVolume"
	case was == claiming:
		reason = "ProvisioningFailed"
	case was == starting:
		o.crashed(p, obj, err.Error())
		return
	}
	o.podEvent(obj, reason, err.Error())
}

// admit takes a waiting pod one step further: claims, node, volumes, process.
func (o *Operator) admit(ctx context.Context, p *podState, spec clusterSpec, ordinal int, obj *corev1.Pod) {
	if o.early(p.notBefore) {
		return
	}
	if o.objects.controlled && obj.Spec.NodeName == "" {
		o.awaitScheduler(ctx, p, spec, obj)
		return
	}
	bound, missing := o.podClaims(spec, obj)
	if missing != "" && (spec.recovery || !bound.allExist || bound.reserved) {
		o.unschedulable(p, obj, missing)
		return
	}
	if obj.Spec.NodeName == "" {
		node, why := o.pickNode(spec, obj, bound)
		if node == "" {
			o.unschedulable(p, obj, why)
			return
		}
		o.schedule(spec, obj, node)
		p.notBefore = o.now().Add(o.cfg.PodStart)
		return
	}
	node, exists := typed[corev1.Node](o.store, nodes, "", obj.Spec.NodeName)
	if !exists {
		return
	}
	if missing != "" {
		p.stage = claiming
		p.job = o.start(ctx, func(ctx context.Context) error { return o.provision(ctx, spec, obj.Name, &node) })
		return
	}
	if why := o.missingSecret(spec, "tikv"); why != "" {
		o.podEvent(obj, "FailedMount", why)
		return
	}
	p.process = TiKVPod{Cluster: spec.name, Pod: obj.Name, Ordinal: ordinal, Recovery: spec.recovery, Volumes: bound.volumes, Host: spec.host(obj)}
	process := p.process
	p.stage = starting
	p.job = o.start(ctx, func(ctx context.Context) error { return o.launch(ctx, process, &node) })
}

// stopped takes the process of a vanished pod down; it returns true when it no longer runs.
func (o *Operator) stopped(ctx context.Context, name cluster.Name, p *podState) bool {
	if p.job.running() {
		return false
	}
	launched := p.process.Pod != "" // a failed start may have left something behind, too
	if !launched || p.stage == stopping {
		return true
	}
	p.stage = stopping
	pod := p.process.Pod
	p.job = o.start(ctx, func(ctx context.Context) error {
		o.runtime.StopTiKV(ctx, name, pod)
		return nil
	})
	return false
}

// observe writes the state of the process into the pod.
func (o *Operator) observe(p *podState, spec clusterSpec, obj *corev1.Pod) {
	id, _, ready, reason := o.runtime.TiKV(spec.name, obj.Name)
	if strings.HasPrefix(reason, Crashed) {
		o.crashed(p, obj, reason)
		return
	}
	p.ready, p.storeID = ready, id
	if ready && id != 0 && !spec.core {
		o.labelStore(spec, obj, id)
	}
	o.setPodRunning(obj.Namespace, obj.Name, ready, reason, p.restarts)
}

// tikvAvailable reports whether TiDB may start, by the real Operator's rule (TiKVIsAvailable of TidbCluster in
// pingcap/tidb-operator, pkg/apis/pingcap/v1alpha1/tidbcluster.go): one store is up and ready, however many there are.
func (c *clusterState) tikvAvailable(spec clusterSpec) bool {
	for _, ordinal := range spec.ordinals() {
		if p := c.pods[spec.pod("tikv", ordinal)]; p != nil && p.stage == running && p.ready {
			return true
		}
	}
	return false
}
