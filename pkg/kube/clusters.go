package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"sort"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
)

// tidbClusterDoc is the part of a TidbCluster that is read.
type tidbClusterDoc struct {
	Spec struct {
		Version      string `json:"version"`
		RecoveryMode bool   `json:"recoveryMode"`
		TLSCluster   struct {
			Enabled bool `json:"enabled"`
		} `json:"tlsCluster"`
		PD struct {
			Replicas int `json:"replicas"`
		} `json:"pd"`
		TiKV struct {
			Replicas int    `json:"replicas"`
			Version  string `json:"version"` // of this component, if it differs
			Config   any    `json:"config"`
		} `json:"tikv"`
		TiDB struct {
			Replicas int `json:"replicas"`
		} `json:"tidb"`
	} `json:"spec"`
	Status struct {
		PD struct {
			Members map[string]struct {
				ClientURL string `json:"clientURL"`
				Health    bool   `json:"health"`
			} `json:"members"`
		} `json:"pd"`
		TiKV struct {
			Phase         string                     `json:"phase"`
			FailureStores map[string]json.RawMessage `json:"failureStores"`
			Stores        map[string]struct {
				PodName string `json:"podName"`
			} `json:"stores"`
		} `json:"tikv"`
		TiDB struct {
			Members map[string]struct {
				Health bool `json:"health"`
			} `json:"members"`
		} `json:"tidb"`
	} `json:"status"`
}

// Cluster reads a TidbCluster.
func (c *Client) Cluster(ctx context.Context, name cluster.Name) (TidbCluster, error) {
	tc, _, err := c.readCluster(ctx, name)
	return tc, err
}

func (c *Client) readCluster(ctx context.Context, name cluster.Name) (TidbCluster, *tidbClusterDoc, error) {
	o, err := c.getCluster(ctx, name)
	if err != nil {
		return TidbCluster{}, nil, err
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return TidbCluster{}, nil, failure.Wrap(err, failure.Corrupt, "read tidbcluster", name.String())
	}
	var doc tidbClusterDoc
	if err := json.Unmarshal(raw, &doc); err != nil {
		return TidbCluster{}, nil, failure.Wrap(err, failure.Corrupt, "read tidbcluster", name.String())
	}
	tc := TidbCluster{
		Name: name, Version: doc.Spec.Version, RecoveryMode: doc.Spec.RecoveryMode,
		PDReplicas: doc.Spec.PD.Replicas, TiKVReplicas: doc.Spec.TiKV.Replicas, TiDBReplicas: doc.Spec.TiDB.Replicas,
		Stores: map[cluster.StoreID]string{}, Object: raw,
		Instance:      instanceOfCluster(o),
		Run:           cluster.RunID(o.GetAnnotations()[RunKey]),
		FailureStores: len(doc.Status.TiKV.FailureStores),
		TLS:           doc.Spec.TLSCluster.Enabled,
		Scaling:       doc.Status.TiKV.Phase == "Scale",
	}
	if v := doc.Spec.TiKV.Version; v != "" {
		tc.Version = v
	}
	for _, m := range doc.Status.PD.Members {
		if m.Health && m.ClientURL != "" {
			tc.PDAddresses = append(tc.PDAddresses, m.ClientURL)
		}
	}
	sort.Strings(tc.PDAddresses)
	for text, s := range doc.Status.TiKV.Stores {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return TidbCluster{}, nil, failure.New(failure.Corrupt, "read tidbcluster", name.String(), "store id %q in its status", text)
		}
		tc.Stores[cluster.StoreID(id)] = s.PodName
	}
	for _, m := range doc.Status.TiDB.Members {
		if m.Health {
			tc.TiDBReady++
		}
	}
	return tc, &doc, nil
}

// instance is TidbCluster.Instance; that of a cluster that does not exist is its name.
func (c *Client) instance(ctx context.Context, name cluster.Name) (string, error) {
	o, err := c.dynamic.Resource(tidbClusterResource()).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return name.Name, nil
	}
	if err != nil {
		return "", kubeerr.Wrap(err, "read tidbcluster", name.String())
	}
	return instanceOfCluster(o), nil
}

// instanceOfCluster is what the Operator labels everything of the cluster with: TidbCluster.GetInstanceName.
func instanceOfCluster(o *unstructured.Unstructured) string {
	return cmp.Or(o.GetLabels()[instanceLabel], o.GetName())
}

// getCluster reads the object; a missing one is NotFound with the names that exist in the hint.
func (c *Client) getCluster(ctx context.Context, name cluster.Name) (*unstructured.Unstructured, error) {
	api := c.dynamic.Resource(tidbClusterResource()).Namespace(name.Namespace)
	o, err := api.Get(ctx, name.Name, metav1.GetOptions{})
	if err == nil {
		return o, nil
	}
	wrapped := kubeerr.Wrap(err, "read tidbcluster", name.String())
	if !apierrors.IsNotFound(err) || !failure.Is(wrapped, failure.NotFound) {
		return nil, wrapped
	}
	missing := failure.New(failure.NotFound, "read tidbcluster", name.String(), "it does not exist")
	list, listErr := api.List(ctx, metav1.ListOptions{})
	switch {
	case listErr != nil:
		return nil, missing.WithHint("list the clusters with `kubectl get tidbclusters -A`")
	case len(list.Items) == 0:
		return nil, missing.WithHint("name another namespace: %s has no tidbcluster", name.Namespace)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].GetName()
	}
	sort.Strings(names)
	return nil, missing.WithHint("use one that exists in namespace %s: %s", name.Namespace, strings.Join(names, ", "))
}
