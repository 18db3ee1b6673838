package kube

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/podreason"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// podObjects is everything that the pods of a cluster lead to, read with few requests.
type podObjects struct {
	of      *source
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume // by PV name
	nodes   map[string]*corev1.Node
	reasons podreason.Warnings
}

// TiKVPods lists the TiKV pods that exist now. If a pod's claim is not bound to an EBS volume, the pods are
// returned together with an Unready error that names the claims; those mounts are left out.
func (c *Client) TiKVPods(ctx context.Context, name cluster.Name) ([]Pod, error) {
	of, err := c.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.podsOf(ctx, name, of)
}

func (c *Client) podsOf(ctx context.Context, name cluster.Name, of *source) ([]Pod, error) {
	list, err := c.core.Pods(name.Namespace).List(ctx, of.pods)
	if err != nil {
		return nil, kubeerr.Wrap(err, "list tikv pods", name.String())
	}
	objects, err := c.follow(ctx, name, list.Items)
	if err != nil {
		return nil, err
	}
	objects.of = of
	found := make([]Pod, 0, len(list.Items))
	var unbound []string
	for i := range list.Items {
		pod, missing, err := objects.pod(&list.Items[i])
		if err != nil {
			return nil, failure.Annotate(err, "read tikv pod", name.Namespace+"/"+list.Items[i].Name)
		}
		found = append(found, pod)
		unbound = append(unbound, missing...)
	}
	of.order(found)
	if len(unbound) > 0 {
		return found, failure.New(failure.Unready, "list tikv pods", name.String(), "%s", strings.Join(unbound, "; ")).
			WithHint("describe the claims: kubectl -n %s describe pvc", name.Namespace)
	}
	return found, nil
}

// follow reads the claims, volumes, nodes and warnings of the pods.
func (c *Client) follow(ctx context.Context, name cluster.Name, list []corev1.Pod) (*podObjects, error) {
	found := &podObjects{
		claims:  map[string]*corev1.PersistentVolumeClaim{},
		volumes: map[string]*corev1.PersistentVolume{},
		nodes:   map[string]*corev1.Node{},
	}
	claims, err := c.core.PersistentVolumeClaims(name.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list claims", name.Namespace)
	}
	for i := range claims.Items {
		found.claims[claims.Items[i].Name] = &claims.Items[i]
	}
	var pvNames, nodeNames []string
	waiting := false
	for i := range list {
		pod := &list[i]
		waiting = waiting || !podreason.Ready(pod)
		if pod.Spec.NodeName != "" && !slices.Contains(nodeNames, pod.Spec.NodeName) {
			nodeNames = append(nodeNames, pod.Spec.NodeName)
		}
		for _, claim := range claimsOf(pod) {
			if pvc := found.claims[claim]; pvc != nil && pvc.Spec.VolumeName != "" {
				pvNames = append(pvNames, pvc.Spec.VolumeName)
			}
		}
	}
	if waiting {
		found.reasons = podreason.Warned(ctx, c.core, name.Namespace)
	}
	if found.volumes, err = fetch(ctx, pvNames, c.core.PersistentVolumes().Get); err != nil {
		return nil, kubeerr.Wrap(err, "read persistent volumes", name.String())
	}
	if found.nodes, err = fetch(ctx, nodeNames, c.core.Nodes().Get); err != nil {
		return nil, kubeerr.Wrap(err, "read nodes", name.String())
	}
	return found, nil
}

// fetch gets objects by name, several at a time; those that do not exist are left out.
func fetch[T any](
	ctx context.Context, names []string, get func(context.Context, string, metav1.GetOptions) (*T, error),
) (map[string]*T, error) {
	list := make([]*T, len(names))
	err := parallel.Each(ctx, parallelRequests, names, func(ctx context.Context, i int, name string) error {
		o, err := get(ctx, name, metav1.GetOptions{})
		if failure.Is(kubeerr.Wrap(err, "", ""), failure.NotFound) {
			return nil
		}
		list[i] = o
		return err
	})
	if err != nil {
		return nil, err
	}
	found := map[string]*T{}
	for i, name := range names {
		if list[i] != nil {
			found[name] = list[i]
		}
	}
	return found, nil
}

// pod assembles what is known about a pod, and lists its claims without an EBS volume.
func (f *podObjects) pod(p *corev1.Pod) (found Pod, unbound []string, err error) {
	found = Pod{Name: p.Name, Node: p.Spec.NodeName, Ready: podreason.Ready(p)}
	if !found.Ready {
		found.Reason = podreason.Of(p, f.reasons[string(p.UID)])
	}
	if node := f.nodes[p.Spec.NodeName]; node != nil {
		found.Instance = cluster.InstanceID(instanceOf(node.Spec.ProviderID))
		found.Zone = cluster.Zone(node.Labels[zoneKey])
	}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		mount, why, err := f.mount(v.PersistentVolumeClaim.ClaimName, p.Namespace)
		if err == nil && why == "" {
			mount.MountPath, mount.Role, err = f.of.place(p, v.Name)
		}
		if err != nil {
			return found, nil, err
		}
		if why != "" {
			unbound = append(unbound,
				fmt.Sprintf("claim %s of pod %s %s", v.PersistentVolumeClaim.ClaimName, p.Name, why))
			continue
		}
		found.Mounts = append(found.Mounts, mount)
	}
	return found, unbound, nil
}

// instanceOf reads "aws:///us-west-2a/i-0abc"; any other provider id has no EC2 instance.
func instanceOf(providerID string) string {
	if !strings.HasPrefix(providerID, "aws://") {
		return ""
	}
	return providerID[strings.LastIndex(providerID, "/")+1:]
}

func claimsOf(p *corev1.Pod) []string {
	var names []string
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// mountPath returns where the tikv container, or else the first other one, sees a volume of the pod.
func mountPath(p *corev1.Pod, volume string) string {
	path := ""
	for _, container := range p.Spec.Containers {
		for _, m := range container.VolumeMounts {
			if m.Name == volume && (path == "" || container.Name == operator1.TiKV) {
				path = m.MountPath
			}
		}
	}
	return path
}

// ordinalOf returns the number at the end of a pod's name, or -1.
func ordinalOf(pod string) int {
	n, err := strconv.Atoi(pod[strings.LastIndex(pod, "-")+1:])
	if err != nil || n < 0 {
		return -1
	}
	return n
}
