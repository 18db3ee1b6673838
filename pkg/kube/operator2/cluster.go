package operator2

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// Objects are a cluster's objects as the API server returned them.
type Objects struct {
	Cluster *unstructured.Unstructured
	Groups  []unstructured.Unstructured // of all components, by resource
	TiKVs   []unstructured.Unstructured // instances
}

// Cluster is what a backup needs to know of a cluster.
type Cluster struct {
	Version                                string // of the first TiKVGroup
	PD                                     string // URL; "" before the Operator has set it
	PDReplicas, TiKVReplicas, TiDBReplicas int
	PDReady, TiDBReady                     int    // members, by their groups' statuses
	SQL                                    string // host of the service of the first TiDBGroup; "" without one
	// Run is the one that created it; "" if tisnap did not. Recovering is Recovering of its object.
	Run        cluster.RunID
	Recovering bool
	Stores     map[cluster.StoreID]string // pod by store id
	TLS        bool
	// ClientCA and ClientPair are the secrets with the CA and with the certificate and key of the cluster's clients.
	ClientCA, ClientPair string
	// Unsteady is why the cluster cannot be backed up now; nil if it can.
	Unsteady error
	// Recorded are the objects as a manifest keeps them: without status and what only the API server sets.
	Recorded []json.RawMessage

	instances map[string]tikvDoc // by pod
}

// BelongsTo reports whether a group is one of the cluster's.
func BelongsTo(name string, group *unstructured.Unstructured) bool {
	of, _, _ := unstructured.NestedString(group.Object, "spec", "cluster", "name")
	return of == name
}

// Read reads the objects of a cluster. Unreadable ones are Corrupt.
func Read(name cluster.Name, all Objects) (*Cluster, error) {
	var doc clusterDoc
	if err := decode(all.Cluster, &doc); err != nil {
		return nil, err
	}
	client := doc.Spec.Security.TLS.Client
	byDefault := clientSecret(name.Name)
	c := &Cluster{
		PD: pdURL(doc.Status.PD, name.Namespace), TLS: doc.Spec.TLSCluster.Enabled,
		ClientCA:   cmp.Or(client.CA.Name, byDefault),
		ClientPair: cmp.Or(client.CertKeyPair.Name, byDefault),
		Stores:     map[cluster.StoreID]string{}, instances: map[string]tikvDoc{},
		Run:        cluster.RunID(all.Cluster.GetAnnotations()[runmark.Key]),
		Recovering: Recovering(all.Cluster),
	}
	groups := make([]groupDoc, len(all.Groups))
	for i := range all.Groups {
		if err := decode(&all.Groups[i], &groups[i]); err != nil {
			return nil, err
		}
		c.count(&groups[i])
	}
	stores := make([]tikvDoc, len(all.TiKVs))
	for i := range all.TiKVs {
		if err := decode(&all.TiKVs[i], &stores[i]); err != nil {
			return nil, err
		}
		c.add(&stores[i])
	}
	c.Unsteady = unsteady(name, &doc, groups, stores)
	var err error
	c.Recorded, err = record(all)
	return c, err
}

func decode(o *unstructured.Unstructured, into any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)
	return failure.Wrap(err, failure.Corrupt, "read "+strings.ToLower(o.GetKind()), o.GetNamespace()+"/"+o.GetName())
}

func (c *Cluster) count(g *groupDoc) {
	switch g.Kind {
	case pdGroupKind:
		c.PDReplicas += g.Spec.Replicas
		c.PDReady += g.Status.ReadyReplicas
	case tidbGroupKind:
		c.TiDBReplicas += g.Spec.Replicas
		c.TiDBReady += g.Status.ReadyReplicas
		c.SQL = cmp.Or(c.SQL, g.Name+"-"+tidb+"."+g.Namespace+".svc")
	case tikvGroupKind:
		c.TiKVReplicas += g.Spec.Replicas
		c.Version = cmp.Or(c.Version, g.Spec.Template.Spec.Version)
	}
}

// add notes a store; one whose id cannot be used makes the cluster unsteady.
func (c *Cluster) add(s *tikvDoc) {
	pod := podName(s.Name)
	c.instances[pod] = *s
	if id := s.id(); id != 0 {
		c.Stores[id] = pod
	}
}

// pdURL completes the host SERVICE.NAMESPACE to SERVICE.NAMESPACE.svc, which is the same service, and cannot be taken
// for a host outside the Kubernetes cluster.
func pdURL(url, namespace string) string {
	port := max(strings.LastIndex(url, ":"), 0)
	if strings.HasSuffix(url[:port], "."+namespace) {
		return url[:port] + ".svc" + url[port:]
	}
	return url
}

const (
	defaultDataPath = "/var/lib/tikv"
	dataMount       = "data"
)

// Data returns where a pod's volume is mounted if it holds TiKV's data directory, which has a mount of its own type.
func (c *Cluster) Data(pod, volume string) (path string, ok bool) {
	for _, v := range c.instances[pod].Spec.Volumes {
		i := slices.IndexFunc(v.Mounts, func(m mount) bool { return m.Type == dataMount })
		if podVolume(v.Name) == volume && i >= 0 {
			return cmp.Or(v.Mounts[i].MountPath, defaultDataPath), true
		}
	}
	return "", false
}

// Config returns TiKV's configuration in a pod, as TOML.
func (c *Cluster) Config(pod string) string { return c.instances[pod].Spec.Config }
