package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// checkQuota compares the total of what a restore creates with what each ResourceQuota of the namespace has left: a dry
// run checks objects one by one, and each alone may fit. Quotas with scopes are left to the API server.
func (c *Client) checkQuota(ctx context.Context, target cluster.Name, need operator1.Demand) error {
	list, err := c.core.ResourceQuotas(target.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return kubeerr.Wrap(err, "list resource quotas", target.Namespace)
	}
	var over, names []string
	for _, q := range list.Items {
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue
		}
		short := shortfalls(&q, need)
		if len(short) > 0 {
			over, names = append(over,
				fmt.Sprintf("ResourceQuota %s: %s", q.Name, strings.Join(short, ", "))), append(names, q.Name)
		}
	}
	if len(over) == 0 {
		return nil
	}
	return failure.New(failure.Unready, "check quotas", "namespace "+target.Namespace, "%s", strings.Join(over, "; ")).
		WithHint("raise the quota or free some of it: kubectl -n %s describe resourcequota %s", target.Namespace,
			strings.Join(names, " "))
}

// shortfalls lists the resources of which a quota has too little.
func shortfalls(q *corev1.ResourceQuota, need operator1.Demand) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		asked, counts := need[aliasOf(name)]
		if !counts {
			continue
		}
		left := q.Status.Hard[name].DeepCopy()
		left.Sub(q.Status.Used[name])
		if asked.Cmp(left) > 0 {
			hard := q.Status.Hard[name]
			out = append(out,
				fmt.Sprintf("the restore needs %s of %s, and %s of %s are left", asked.String(), name, left.String(),
					hard.String()))
		}
	}
	return out
}

// aliasOf returns a demand's name for a resource that a quota may limit under several names.
func aliasOf(name corev1.ResourceName) corev1.ResourceName {
	switch name {
	case corev1.ResourceCPU:
		return corev1.ResourceRequestsCPU
	case corev1.ResourceMemory:
		return corev1.ResourceRequestsMemory
	}
	switch kind := corev1.ResourceName(strings.TrimPrefix(string(name), "count/")); kind {
	case corev1.ResourcePods, corev1.ResourceServices, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims:
		return kind
	}
	return name
}

// restoredDemand is what the volumes' claims request, except for claims that already exist.
func (c *Client) restoredDemand(
	ctx context.Context, target cluster.Name, volumes []RestoredVolume,
) (operator1.Demand, error) {
	need := operator1.Demand{}
	list, err := c.core.PersistentVolumeClaims(target.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list claims", target.Namespace)
	}
	there := claimNames(list.Items)
	for _, v := range volumes {
		v.Volume = anyVolume
		pvc, _, err := restoredObjects(v)
		if err != nil {
			return nil, err
		}
		if _, exists := slices.BinarySearch(there, pvc.Name); exists {
			continue
		}
		class := ""
		if pvc.Spec.StorageClassName != nil {
			class = *pvc.Spec.StorageClassName
		}
		need.Claims(1, pvc.Spec.Resources.Requests[corev1.ResourceStorage], class)
	}
	return need, nil
}

// addFilled adds the claims that are filled, which are there until the target's claims get their volumes.
func addFilled(need operator1.Demand, volumes []RestoredVolume) {
	for _, v := range volumes {
		if v.Filled != nil {
			need.Claims(1, *resource.NewQuantity(v.SizeGiB<<30, resource.BinarySI), v.Filled.Class)
		}
	}
}

// tryQuota checks the quotas for the target and its volumes, or for the volumes alone if the cluster already exists:
// what the Operator has yet to create for it is unknown.
func (c *Client) tryQuota(
	ctx context.Context, made operator1.Made, to cluster.Name, volumes []RestoredVolume, exists bool,
) error {
	need, err := c.restoredDemand(ctx, to, volumes)
	if err != nil {
		return err
	}
	if !exists {
		_, err := c.dynamic.Resource(operator1.Resource()).Namespace(to.Namespace).
			Get(ctx, to.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			need.Cluster(made.Object)
		case err != nil:
			return kubeerr.Wrap(err, "read tidbcluster", to.String())
		}
	}
	return c.checkQuota(ctx, to, need)
}
