package testbed

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// AddKubernetes starts another Kubernetes cluster beside the testbed's, with an API server, nodes and an Operator of its
// own. Its nodes and volumes are in ec2, which is one of the testbed's: the same account and region, or another. S3 is the
// testbed's, and a TidbCluster there may join the PD of one here by spec.cluster. dir is for its kubeconfig. Close it
// before the testbed.
func (t *Testbed) AddKubernetes(ctx context.Context, ec2 *ebstest.Server, dir string) (*Testbed, error) {
	ctx, cancel := context.WithCancel(ctx)
	cfg := t.cfg
	cfg.Dir, cfg.Seed = dir, cfg.Seed+1
	other := &Testbed{cfg: cfg, EC2: ec2, S3: t.S3, clock: t.clock, aws: t.aws, beside: t, cancel: cancel}
	if err := other.startKubernetes(ctx); err != nil {
		other.Close()
		return nil, err
	}
	return other, nil
}

// Part is the part of a TiDB cluster that is in one Kubernetes cluster.
type Part struct {
	Bed    *Testbed
	Name   cluster.Name // of the TidbCluster
	Stores int
}

// CreateJoint makes one TiDB cluster of several TidbClusters, and waits until it serves: PD is the first one's, and the
// stores of all are bootstrapped together.
func CreateJoint(ctx context.Context, parts ...Part) (*Cluster, error) {
	total := 0
	for _, p := range parts {
		total += p.Stores
	}
	for i, p := range parts {
		opts := kubetest.ClusterOptions{Name: p.Name, PD: 1, TiKV: p.Stores, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true}
		if i > 0 {
			opts.Join = parts[0].Name
		}
		p.Bed.Nodes.expect(p.Name, total)
		if err := p.Bed.Objects.Put(kubetest.NewTidbCluster(opts)); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		if _, err := p.Bed.AwaitCluster(ctx, p.Name); err != nil {
			return nil, err
		}
	}
	return parts[0].Bed.Nodes.Cluster(parts[0].Name), nil
}

func (k *Kubelet) expect(name cluster.Name, total int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total[name] = total
}

// joins is the TidbCluster whose PD a cluster has, if that is not its own.
func (k *Kubelet) joins(name cluster.Name) (first cluster.Name, ok bool) {
	tc := k.bed.Objects.Get("tidbclusters", name.Namespace, name.Name)
	if tc == nil || k.bed.beside == nil {
		return first, false
	}
	first.Name, ok, _ = unstructured.NestedString(tc.Object, "spec", "cluster", "name")
	first.Namespace, _, _ = unstructured.NestedString(tc.Object, "spec", "cluster", "namespace")
	return first, ok
}

// join makes a cluster of the first Kubernetes cluster known here. Its stores that are started here are among its own.
func (k *Kubelet) join(name, first cluster.Name) ([]string, error) {
	c := k.bed.beside.Nodes.Cluster(first)
	if c == nil {
		return nil, fmt.Errorf("cluster %s has no PD yet", first)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clusters[name] = c
	return c.PD.URLs(), nil
}
