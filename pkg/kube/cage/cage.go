package cage

import (
	"context"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/kube/typed"
)

const (
	// Label is on the namespaces of cages alone: backups leave their clusters out.
	Label = "tisnap.io/drill"
	// ExpiresKey and storageKey are annotations: when it may be removed by anyone, and whose run made it. The first is
	// on the persistent volumes of its cluster, too.
	ExpiresKey = "tisnap.io/drill-expires"
	storageKey = "tisnap.io/storage"

	prefix = "tisnap-drill-"
	// objects is the name of what is in each cage.
	objects = "tisnap-drill"
	// podSecurity is the level of the Pod Security Standards that is enforced: no privileged pods and none with the
	// node's network, which no policy is about.
	podSecurity = "baseline"
)

// Spec is the cage to make.
type Spec struct {
	Run cluster.RunID
	// Storage is the id of the storage that has the run's journal.
	Storage string
	Expires time.Time
	// From are the namespaces whose pods may connect to those in the cage: TiDB Operator's, and that of tisnap itself.
	From []string
	// Pods, Claims and StorageGiB bound what can be made in it.
	Pods, Claims, StorageGiB int64
}

// Cage is a namespace.
type Cage struct {
	Namespace string        `json:"namespace"`
	UID       string        `json:"uid"`
	Run       cluster.RunID `json:"run"`
	Storage   string        `json:"storage"`
	Expires   time.Time     `json:"expires"` // zero if it cannot be read
	Deleting  bool          `json:"deleting,omitempty"`
}

// Cages are those of a Kubernetes cluster.
type Cages struct {
	core *typed.Client
}

// New returns the cages that a client of the API server sees.
func New(core *typed.Client) *Cages { return &Cages{core: core} }

// Name is the namespace of a run's cage.
func Name(run cluster.RunID) string { return prefix + runmark.Slug(string(run)) }

// Is reports whether a namespace has the name of a cage.
func Is(namespace string) bool { return strings.HasPrefix(namespace, prefix) }

// Make makes the namespace, then what closes it: nothing else may be put there before it returns. A namespace of that
// name that another run made, or anyone else, is a Conflict and stays as it is; the run's own is completed.
func (c *Cages) Make(ctx context.Context, spec Spec) (Cage, error) {
	const op = "make cage"
	name := Name(spec.Run)
	if spec.Run == "" || spec.Storage == "" || spec.Expires.IsZero() || spec.Pods*spec.Claims*spec.StorageGiB <= 0 {
		return Cage{}, failure.New(failure.Usage, op, name, "it needs a run, a storage, an expiry and limits")
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			Label: "true", "pod-security.kubernetes.io/enforce": podSecurity,
		},
		Annotations: map[string]string{
			ExpiresKey: spec.Expires.UTC().Format(time.RFC3339), storageKey: spec.Storage,
		},
	}}
	runmark.Put(ns, spec.Run)
	made, err := c.core.Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = c.own(ctx, spec, op)
	}
	if err != nil {
		return Cage{}, kubeerr.Wrap(err, op, name)
	}
	cage := read(made)
	if err := c.close(ctx, cage, spec); err != nil {
		return cage, kubeerr.Wrap(err, op, name)
	}
	return cage, nil
}

// own returns the namespace if the run made it.
func (c *Cages) own(ctx context.Context, spec Spec, op string) (*corev1.Namespace, error) {
	name := Name(spec.Run)
	ns, err := c.core.Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if err := runmark.CheckMade(ns, spec.Run, op, name); err != nil {
		return nil, err
	}
	if found := read(ns); found.Storage != spec.Storage || ns.Labels[Label] == "" {
		return nil, failure.New(failure.Conflict, op, name, "it is of a run of that id in storage %s", found.Storage)
	}
	return ns, nil
}

// close makes what closes the namespace: first the policies, which are about every pod that comes.
func (c *Cages) close(ctx context.Context, cage Cage, spec Spec) error {
	servers, err := c.apiServers(ctx)
	if err != nil {
		return err
	}
	for _, policy := range policies(spec, servers) {
		runmark.Put(policy, spec.Run)
		_, err := c.core.NetworkPolicies(cage.Namespace).Create(ctx, policy, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	quota := quotaOf(spec)
	runmark.Put(quota, spec.Run)
	_, err = c.core.ResourceQuotas(cage.Namespace).Create(ctx, quota, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// quotaOf bounds what can be made, and keeps out what would lead into the cage from outside.
func quotaOf(spec Spec) *corev1.ResourceQuota {
	count := func(n int64) resource.Quantity { return resource.MustParse(strconv.FormatInt(n, 10)) }
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: objects},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods:                   count(spec.Pods),
			corev1.ResourcePersistentVolumeClaims: count(spec.Claims),
			corev1.ResourceRequestsStorage:        resource.MustParse(strconv.FormatInt(spec.StorageGiB, 10) + "Gi"),
			corev1.ResourceServicesLoadBalancers:  count(0),
			corev1.ResourceServicesNodePorts:      count(0),
		}},
	}
}

func read(ns *corev1.Namespace) Cage {
	expires, _ := time.Parse(time.RFC3339, ns.Annotations[ExpiresKey]) // zero is in the contract
	return Cage{
		Namespace: ns.Name, UID: string(ns.UID), Run: cluster.RunID(ns.Annotations[runmark.Key]),
		Storage: ns.Annotations[storageKey], Expires: expires, Deleting: ns.DeletionTimestamp != nil,
	}
}
