package testbed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

// poll is how often the testbed looks at its own state.
const poll = 20 * time.Millisecond

// CreateCluster makes a cluster of stores with two volumes each and waits until TiDB is up. With Operator 2.x the stores are
// of two groups, if there are several.
func (t *Testbed) CreateCluster(ctx context.Context, name cluster.Name, stores int) (*Cluster, error) {
	opts := kubetest.ClusterOptions{
		Name: name, PD: 1, TiKV: stores, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true, TLS: t.cfg.TLS != nil,
		TiKVGroups: min(stores, 2),
	}
	objects := []*unstructured.Unstructured{kubetest.NewTidbCluster(opts)}
	if t.cfg.Operator == 2 {
		objects = kubetest.NewCoreCluster(opts)
	}
	for _, o := range objects {
		if err := t.Objects.Put(o); err != nil {
			return nil, err
		}
	}
	return t.AwaitCluster(ctx, name)
}

// AwaitCluster waits until TiDB answers, all stores are up in PD and in the Operator's status, and PD's schedulers
// run.
func (t *Testbed) AwaitCluster(ctx context.Context, name cluster.Name) (*Cluster, error) {
	var c *Cluster
	err := wait.Until(ctx, wait.Every(poll), func() (bool, error) {
		c = t.Nodes.Cluster(name)
		return c != nil && t.Nodes.TiDBReady(name) > 0 && t.allStores(name) && c.pdReady(ctx), nil
	})
	return c, failure.Annotate(err, "wait for cluster", name.String())
}

// allStores reports whether the Operator's status of the cluster has a store for each TiKV pod: it writes it a while
// after they are up.
func (t *Testbed) allStores(name cluster.Name) bool {
	tc := t.Objects.Get("tidbclusters", name.Namespace, name.Name)
	if tc == nil {
		return t.allInstances(name)
	}
	want, _, _ := unstructured.NestedInt64(tc.Object, "spec", "tikv", "replicas")
	known, _, _ := unstructured.NestedMap(tc.Object, "status", "tikv", "stores")
	return int64(len(known)) >= want
}

// SplitAt splits the cluster at raw keys.
func (c *Cluster) SplitAt(ctx context.Context, keys ...[]byte) error {
	return tikvtest.SplitAt(ctx, c.Stores(), keys...)
}

// DestroyCluster deletes the TidbCluster, or the Cluster of Operator 2.x, its claims and PVs, and then its volumes: what is
// left of it are the snapshots. It returns the number of EBS volumes deleted.
func (t *Testbed) DestroyCluster(ctx context.Context, name cluster.Name) (int, error) {
	volumes, owned, others := t.volumesOf(name), t.claimsOf(name), t.otherVolumesOf(name)
	for _, resource := range []string{"tidbclusters", "clusters"} {
		if t.Objects.Get(resource, name.Namespace, name.Name) == nil {
			continue
		}
		if err := t.remove(ctx, resource, name.Namespace, name.Name); err != nil {
			return 0, err
		}
	}
	err := wait.Until(ctx, wait.Every(poll), func() (bool, error) { return t.Nodes.Cluster(name) == nil && t.detached(volumes), nil })
	if err != nil {
		return 0, fmt.Errorf("wait until cluster %s is gone: %w", name, err)
	}
	for _, pvc := range owned {
		volume, _, _ := unstructured.NestedString(pvc.Object, "spec", "volumeName")
		if err := t.removeClaim(ctx, pvc, volume); err != nil {
			return 0, err
		}
	}
	for _, v := range volumes {
		if err := t.deleteVolume(ctx, v); err != nil {
			return 0, err
		}
	}
	for _, v := range others {
		if err := t.Disks.Delete(ctx, v); err != nil {
			return 0, err
		}
	}
	return len(volumes), nil
}

// removeClaim deletes a claim and its PV, and waits until both are gone: a real API server keeps them until nothing uses them.
func (t *Testbed) removeClaim(ctx context.Context, pvc *unstructured.Unstructured, volume string) error {
	if err := t.remove(ctx, "persistentvolumeclaims", pvc.GetNamespace(), pvc.GetName()); err != nil {
		return err
	}
	if err := t.remove(ctx, "persistentvolumes", "", volume); err != nil {
		return err
	}
	for t.Objects.Get("persistentvolumeclaims", pvc.GetNamespace(), pvc.GetName()) != nil || t.Objects.Get("persistentvolumes", "", volume) != nil {
		if err := wait.For(ctx, poll); err != nil {
			return fmt.Errorf("wait until claim %s is gone: %w", pvc.GetName(), err)
		}
	}
	return nil
}

// claimsOf lists the claims of a cluster.
func (t *Testbed) claimsOf(name cluster.Name) []*unstructured.Unstructured {
	return slices.DeleteFunc(t.Objects.List("persistentvolumeclaims", name.Namespace), func(pvc *unstructured.Unstructured) bool {
		return pvc.GetLabels()["app.kubernetes.io/instance"] != name.Name
	})
}

// volumesOf lists the EBS volumes that the cluster's claims are bound to.
func (t *Testbed) volumesOf(name cluster.Name) []cluster.VolumeID {
	return slices.DeleteFunc(t.handlesOf(name), func(v cluster.VolumeID) bool {
		_, ok := t.EC2.Volume(v)
		return !ok
	})
}

// handlesOf lists the drivers' ids of the volumes that the cluster's claims are bound to.
func (t *Testbed) handlesOf(name cluster.Name) (out []cluster.VolumeID) {
	for _, pvc := range t.claimsOf(name) {
		volume, _, _ := unstructured.NestedString(pvc.Object, "spec", "volumeName")
		if pv := t.Objects.Get("persistentvolumes", "", volume); pv != nil {
			handle, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "volumeHandle")
			out = append(out, cluster.VolumeID(handle))
		}
	}
	return out
}

// Volumes lists the volumes of a cluster's claims that exist.
func (t *Testbed) Volumes(name cluster.Name) []cluster.VolumeID {
	return append(t.volumesOf(name), t.otherVolumesOf(name)...)
}

func (t *Testbed) detached(volumes []cluster.VolumeID) bool {
	for _, v := range volumes {
		if got, ok := t.EC2.Volume(v); ok && got.Instance != "" {
			return false
		}
	}
	return true
}
