package kubetest

import (
	"context"
	"errors"
	"fmt"
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
			o.deletePod(spec.name.Namespace, pod)
			if o.stopped(ctx, spec.name, p, true) {
				delete(c.pods, pod)
			}
		}
	}
}

func (o *Operator) reconcilePod(ctx context.Context, c *clusterState, spec clusterSpec, ordinal int, name string) {
	p := c.pods[name]
	obj, exists := typed[corev1.Pod](o.store, pods, spec.name.Namespace, name)
	if p != nil && (!exists || obj.UID != p.uid) {
		if !o.stopped(ctx, spec.name, p, false) {
			return
		}
		delete(c.pods, name)
		p = nil
	}
	if !spec.recovery {
		o.ensureClaims(spec, name, ordinal)
	}
	if !exists {
		obj = o.createTiKVPod(spec, name, ordinal)
	}
	if p == nil {
		p = &podState{uid: obj.UID}
		c.pods[name] = p
	}
	if p.job.running() {
		return
	}
	o.takeResult(p, &obj)
	switch p.stage {
	case waiting:
		o.admit(ctx, p, spec, ordinal, &obj)
	case running:
		o.observe(p, spec, &obj)
	}
}

// takeResult reads the end of a job; what went wrong becomes an event, as a user would see it.
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
	}
	o.podEvent(obj, reason, err.Error())
}

// admit takes a waiting pod one step further: claims, node, volumes, process.
func (o *Operator) admit(ctx context.Context, p *podState, spec clusterSpec, ordinal int, obj *corev1.Pod) {
	if o.now().Before(p.notBefore) {
		return
	}
	bound, missing := o.podClaims(spec, obj)
	if missing != "" && (spec.recovery || !bound.allExist) {
		o.unschedulable(p, obj, missing)
		return
	}
	if obj.Spec.NodeName == "" {
		node, why := o.pickNode(spec, bound)
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
	p.process = TiKVPod{Cluster: spec.name, Pod: obj.Name, Ordinal: ordinal, Recovery: spec.recovery, Volumes: bound.volumes}
	process := p.process
	p.stage = starting
	p.job = o.start(ctx, func(ctx context.Context) error { return o.launch(ctx, process, instanceOf(&node)) })
}

// attachError is an error of the CSI driver.
type attachError struct{ err error }

func (e attachError) Error() string { return e.err.Error() }
func (e attachError) Unwrap() error { return e.err }

// launch attaches the volumes and starts the process.
func (o *Operator) launch(ctx context.Context, p TiKVPod, instance cluster.InstanceID) error {
	for _, v := range p.Volumes {
		on, attached := o.attachment(v.Volume)
		if attached && on == instance {
			continue
		}
		if attached {
			if err := o.disks.Detach(ctx, v.Volume); err != nil {
				return attachError{fmt.Errorf("Multi-Attach error for volume %q: detach: %w", v.Volume, err)}
			}
			o.setAttachment(v.Volume, "")
		}
		if err := o.disks.Attach(ctx, v.Volume, instance); err != nil {
			return attachError{fmt.Errorf("AttachVolume.Attach failed for volume %q: %w", v.Volume, err)}
		}
		o.setAttachment(v.Volume, instance)
	}
	return o.runtime.StartTiKV(ctx, p)
}

func (o *Operator) attachment(v cluster.VolumeID) (cluster.InstanceID, bool) {
	o.volumeMu.Lock()
	defer o.volumeMu.Unlock()
	i, ok := o.attached[v]
	return i, ok
}

func (o *Operator) setAttachment(v cluster.VolumeID, i cluster.InstanceID) {
	o.volumeMu.Lock()
	defer o.volumeMu.Unlock()
	if i == "" {
		delete(o.attached, v)
		return
	}
	o.attached[v] = i
}

// stopped takes the process of a vanished pod down, step by step; it returns true when nothing is left.
func (o *Operator) stopped(ctx context.Context, name cluster.Name, p *podState, detach bool) bool {
	if p.job.running() {
		return false
	}
	if p.stage == stopping {
		return true
	}
	launched := p.stage == running || p.process.Pod != "" // a failed start may have left something behind
	if !launched {
		return true
	}
	p.stage = stopping
	process := p.process
	p.job = o.start(ctx, func(ctx context.Context) error {
		o.runtime.StopTiKV(ctx, name, process.Pod)
		if !detach {
			return nil
		}
		for _, v := range process.Volumes {
			if _, attached := o.attachment(v.Volume); !attached {
				continue
			}
			if err := o.disks.Detach(ctx, v.Volume); err != nil {
				return err
			}
			o.setAttachment(v.Volume, "")
		}
		return nil
	})
	return false
}

// observe writes what the process says into the pod.
func (o *Operator) observe(p *podState, spec clusterSpec, obj *corev1.Pod) {
	id, _, ready, reason := o.runtime.TiKV(spec.name, obj.Name)
	p.ready, p.storeID = ready, id
	if ready && id != 0 {
		o.labelStore(spec, obj, id)
	}
	o.setPodRunning(obj.Namespace, obj.Name, ready, reason)
}

// storesReady reports whether every TiKV pod of the spec runs and is ready.
func (c *clusterState) storesReady(spec clusterSpec) bool {
	for _, ordinal := range spec.ordinals() {
		p := c.pods[spec.pod("tikv", ordinal)]
		if p == nil || p.stage != running || !p.ready {
			return false
		}
	}
	return true
}
