package kubetest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// attachment is where a volume is attached, and for which pod.
type attachment struct {
	instance cluster.InstanceID
	cluster  cluster.Name // none for a pod of none
	pod      string
	node, pv string // the names of their objects
	driver   string
	// namespace is that of a pod of no cluster.
	namespace string
}

// attachError is an error of the CSI driver.
type attachError struct{ err error }

func (e attachError) Error() string { return e.err.Error() }
func (e attachError) Unwrap() error { return e.err }

// launch attaches the volumes and starts the process. A volume stays attached when its pod is made again on
// the same node.
func (o *Operator) launch(ctx context.Context, p TiKVPod, node *corev1.Node) error {
	for _, v := range p.Volumes {
		at := attachment{
			instance: instanceOf(node), cluster: p.Cluster, pod: p.Pod, node: node.Name, pv: v.PV, driver: v.Driver,
		}
		if err := o.attach(ctx, v.Volume, at); err != nil {
			return err
		}
	}
	return o.runtime.StartTiKV(ctx, p)
}

// attach attaches a volume, unless it is. One that another store had is detached first; other pods share theirs on one node.
func (o *Operator) attach(ctx context.Context, v cluster.VolumeID, want attachment) error {
	at, attached := o.attachment(v)
	none := cluster.Name{}
	shared := at.cluster == none && want.cluster == none && at.instance == want.instance
	other := (at.cluster == none || want.cluster == none) &&
		(at.cluster != want.cluster || at.namespace != want.namespace || at.pod != want.pod)
	switch {
	case attached && shared:
		o.note(v, want) // who had it first may have ended
		return nil
	case attached && other:
		return attachError{fmt.Errorf("Multi-Attach error for volume %q: Volume is already used by pod(s) %s", v, at.pod)}
	case attached && at.instance == want.instance:
		return nil
	case attached:
		if err := o.csi.drivers[at.driver].Detach(ctx, v); err != nil {
			return attachError{fmt.Errorf("Multi-Attach error for volume %q: detach: %w", v, err)}
		}
		o.forgetAttachment(v)
	}
	disks := o.csi.drivers[want.driver]
	if disks == nil {
		return attachError{fmt.Errorf("AttachVolume.Attach failed for volume %q: no driver %q is installed", v, want.driver)}
	}
	if err := disks.Attach(ctx, v, want.instance); err != nil {
		return attachError{fmt.Errorf("AttachVolume.Attach failed for volume %q: %w", v, err)}
	}
	o.note(v, want)
	o.publish(v, want)
	return nil
}

func (o *Operator) note(v cluster.VolumeID, at attachment) {
	o.volumeMu.Lock()
	defer o.volumeMu.Unlock()
	o.attached[v] = at
}

// detached detaches what is attached for a pod, or with pod "" for a whole cluster, whose processes have
// been stopped; it returns true when nothing is left. What failed is tried again.
func (o *Operator) detached(ctx context.Context, c *clusterState, name cluster.Name, pod string) bool {
	if c.detach.running() {
		return false
	}
	if c.detach != nil && c.detach.err != nil && o.early(c.detachAt) {
		return false
	}
	list := map[cluster.VolumeID]Disks{}
	o.volumeMu.Lock()
	for v, at := range o.attached {
		if at.cluster == name && (pod == "" || at.pod == pod) {
			list[v] = o.csi.drivers[at.driver]
		}
	}
	o.volumeMu.Unlock()
	if len(list) == 0 {
		return true
	}
	c.detachAt = o.now().Add(o.cfg.Retry)
	c.detach = o.start(ctx, func(ctx context.Context) error {
		for v, disks := range list {
			if err := disks.Detach(ctx, v); err != nil {
				return err
			}
			o.forgetAttachment(v)
		}
		return nil
	})
	return false
}

func (o *Operator) attachment(v cluster.VolumeID) (attachment, bool) {
	o.volumeMu.Lock()
	defer o.volumeMu.Unlock()
	at, ok := o.attached[v]
	return at, ok
}

func (o *Operator) forgetAttachment(v cluster.VolumeID) {
	o.volumeMu.Lock()
	at := o.attached[v]
	delete(o.attached, v)
	o.volumeMu.Unlock()
	o.unpublish(v, at)
}
