package kube

import (
	"context"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// generation1 is TiDB Operator 1.x: one TidbCluster, and StatefulSets.
type generation1 struct{ *Client }

func (c generation1) get(ctx context.Context, name cluster.Name) (*unstructured.Unstructured, error) {
	o, err := c.dynamic.Resource(operator1.Resource()).Namespace(name.Namespace).
		Get(ctx, name.Name, metav1.GetOptions{})
	if err = kubeerr.Wrap(err, "read tidbcluster", name.String()); failure.Is(err, failure.NotFound) {
		return nil, nil
	}
	return o, err
}

func (c generation1) read(_ context.Context, name cluster.Name, o *unstructured.Unstructured) (*source, error) {
	tc, config, err := operator1.Read(name, o)
	if err != nil {
		return nil, err
	}
	return &source{
		TidbCluster: tc, pods: operator1.ComponentSelector(tc.Instance, operator1.TiKV),
		place: func(p *corev1.Pod, volume string) (string, cluster.Role, error) {
			path := mountPath(p, volume)
			role, err := operator1.VolumeRole(config, path)
			return path, role, err
		},
		order: func(pods []Pod) {
			for i := range pods {
				pods[i].Ordinal = ordinalOf(pods[i].Name)
			}
			sort.Slice(pods, func(i, j int) bool { return pods[i].Ordinal < pods[j].Ordinal })
		},
	}, nil
}

func (c generation1) names(ctx context.Context, namespace string) ([]cluster.Name, error) {
	list, err := c.dynamic.Resource(operator1.Resource()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list tidbclusters", namespace)
	}
	names := make([]cluster.Name, len(list.Items))
	for i := range list.Items {
		names[i] = cluster.Name{Namespace: list.Items[i].GetNamespace(), Name: list.Items[i].GetName()}
	}
	return names, nil
}

func (generation1) belongs(o *unstructured.Unstructured) metav1.ListOptions {
	return operator1.InstanceSelector(operator1.Instance(o))
}

func (generation1) serves(o *unstructured.Unstructured) string { return operator1.Serves(o) }

func (generation1) runsTiDB(o *unstructured.Unstructured) string { return operator1.RunsTiDB(o) }

func (generation1) mayUse(o *unstructured.Unstructured) string { return operator1.MayUse(o) }
