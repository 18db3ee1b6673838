package kube

import (
	"context"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
)

// generation2 is TiDB Operator 2.x: a Cluster, groups of instances, and a pod an instance.
type generation2 struct{ *Client }

const readCluster = "read cluster"

func (g generation2) get(ctx context.Context, name cluster.Name) (*unstructured.Unstructured, error) {
	if err := g.served(ctx, operator2.GroupVersion); err != nil {
		return nil, failure.Annotate(err, readCluster, name.String())
	}
	o, err := g.dynamic.Resource(operator2.Resource(operator2.Clusters)).Namespace(name.Namespace).
		Get(ctx, name.Name, metav1.GetOptions{})
	if err = kubeerr.Wrap(err, readCluster, name.String()); failure.Is(err, failure.NotFound) {
		return nil, nil
	}
	return o, err
}

func (g generation2) read(ctx context.Context, name cluster.Name, o *unstructured.Unstructured) (*source, error) {
	all, err := g.objects(ctx, name)
	if err != nil {
		return nil, err
	}
	all.Cluster = o
	read, err := operator2.Read(name, all)
	if err != nil {
		return nil, err
	}
	return sourceOf2(name, read), nil
}

func sourceOf2(name cluster.Name, read *operator2.Cluster) *source {
	s := &source{
		TidbCluster: TidbCluster{
			Name: name, Version: read.Version, Instance: name.Name, TLS: read.TLS, Stores: read.Stores,
			ClientCA: read.ClientCA, ClientPair: read.ClientPair,
			PDReplicas: read.PDReplicas, TiKVReplicas: read.TiKVReplicas, TiDBReplicas: read.TiDBReplicas,
			PDReady: read.PDReady, TiDBReady: read.TiDBReady, SQL: read.SQL, Run: read.Run,
			RecoveryMode: read.Recovering, Own: read.Recovering, Objects: read.Recorded, Unsteady: read.Unsteady,
		},
		pods: operator2.TiKVOf(name.Name),
		place: func(p *corev1.Pod, volume string) (string, cluster.Role, error) {
			if path, ok := read.Data(p.Name, volume); ok {
				return path, cluster.RoleData, nil
			}
			at := mountPath(p, volume)
			role, err := operator1.VolumeRole(read.Config(p.Name), at)
			if role == cluster.RoleData { // another mount has the type, which alone counts
				role = cluster.Role("mount:" + path.Clean(at))
			}
			return at, role, err
		},
		order: func(pods []Pod) {
			slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
			for i := range pods {
				pods[i].Ordinal = i // their names have random ends
			}
		},
	}
	if read.PD != "" {
		s.PDAddresses = []string{read.PD}
	}
	return s
}

func (g generation2) names(ctx context.Context, namespace string) ([]cluster.Name, error) {
	if err := g.served(ctx, operator2.GroupVersion); err != nil {
		return nil, failure.Annotate(err, "list clusters", namespace)
	}
	list, err := g.list(ctx, operator2.Clusters, namespace, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := make([]cluster.Name, len(list))
	for i := range list {
		names[i] = cluster.Name{Namespace: list[i].GetNamespace(), Name: list[i].GetName()}
	}
	return names, nil
}

func (g generation2) list(
	ctx context.Context, resource, namespace string, opts metav1.ListOptions,
) ([]unstructured.Unstructured, error) {
	list, err := g.dynamic.Resource(operator2.Resource(resource)).Namespace(namespace).List(ctx, opts)
	if err != nil {
		return nil, kubeerr.Wrap(err, "list "+resource, namespace)
	}
	return list.Items, nil
}
