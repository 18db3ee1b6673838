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
	cluster  cluster.Name
	pod      string
	node, pv string // the names of their objects
}

// attachError is an error of the CSI driver.
type attachError struct{ err error }

func (e attachError) Error() string { return e.err.Error() }
func (e attachError) Unwrap() error { return e.err }

// launch attaches the volumes and starts the process. A volume stays attached when its pod is made again on
// the same node.
func (o *Operator) launch(ctx context.Context, p TiKVPod, node *corev1.Node) error {
	instance := instanceOf(node)
	for _, v := range p.Volumes {
		at, attached := o.attachment(v.Volume)
		if attached && at.instance == instance {
			continue
		}
		if attached {
			if err := o.disks.Detach(ctx, v.Volume); err != nil {
				return attachError{fmt.Errorf("Multi-Attach error for volume %q: detach: %w", v.Volume, err)}
			}
			o.forgetAttachment(v.Volume)
		}
		if err := o.disks.Attach(ctx, v.Volume, instance); err != nil {
			return attachError{fmt.Errorf("AttachVolume.Attach failed for volume %q: %w", v.Volume, err)}
		}
		o.volumeMu.Lock()
		o.attached[v.Volume] = attachment{instance, p.Cluster, p.Pod, node.Name, v.PV}
		o.volumeMu.Unlock()
		o.publish(v.Volume, v.PV, node.Name)
	}
	return o.runtime.StartTiKV(ctx, p)
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
	var list []cluster.VolumeID
	o.volumeMu.Lock()
	for v, at := range o.attached {
		if at.cluster == name && (pod == "" || at.pod == pod) {
			list = append(list, v)
		}
	}
	o.volumeMu.Unlock()
	if len(list) == 0 {
		return true
	}
	c.detachAt = o.now().Add(o.cfg.Retry)
	c.detach = o.start(ctx, func(ctx context.Context) error {
		for _, v := range list {
			if err := o.disks.Detach(ctx, v); err != nil {
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
	o.unpublish(v, at.pv, at.node)
}
