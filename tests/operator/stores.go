package operator

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// addPeerStores puts PD's other stores into the status: those of the same cluster in other Kubernetes clusters.
func addPeerStores(bed *testbed.Testbed, tc *unstructured.Unstructured, own object) error {
	peers := object{}
	for _, s := range bed.Nodes.Cluster(cluster.Name{Namespace: tc.GetNamespace(), Name: tc.GetName()}).Stores() {
		id := strconv.FormatUint(s.ID(), 10)
		if _, ok := own[id]; !ok {
			peers[id] = object{"id": id, "state": "Up"}
		}
	}
	if len(peers) == 0 {
		return nil
	}
	return unstructured.SetNestedMap(tc.Object, peers, "status", "tikv", "peerStores")
}

// awaitStores waits until PD reports that all stores of this Kubernetes cluster are up: the Restore is TikvComplete then.
func (o *Operator) awaitStores(ctx context.Context, name cluster.Name) error {
	secure, err := o.TLS.Config()
	if err != nil {
		return err
	}
	client, err := pd.Open(ctx, pd.Config{Addresses: o.Bed.Nodes.Cluster(name).PD.URLs(), TLS: secure})
	if err != nil {
		return err
	}
	defer client.Close()
	want, _, _ := unstructured.NestedInt64(o.Bed.Kube.Get("tidbclusters", name.Namespace, name.Name).Object, "spec", "tikv", "replicas")
	return until(ctx, "stores of "+name.String(), func() bool {
		stores, err := client.Stores(ctx)
		up := slices.DeleteFunc(stores, func(s pd.Store) bool { return s.State != pd.StoreUp || !slices.Contains(o.stores(name, want), s.ID) })
		return err == nil && int64(len(up)) == want
	}, func() error { return nil })
}

// stores are those that run in the cluster's pods.
func (o *Operator) stores(name cluster.Name, replicas int64) []cluster.StoreID {
	var ids []cluster.StoreID
	for i := range replicas {
		id, _, _, _ := o.Bed.Nodes.TiKV(name, fmt.Sprintf("%s-tikv-%d", name.Name, i))
		ids = append(ids, id)
	}
	return ids
}
