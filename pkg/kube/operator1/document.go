package operator1

import (
	"encoding/json"
	"sort"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// TidbCluster is the part of a TidbCluster object that tisnap reads, and the whole object unchanged.
type TidbCluster struct {
	Name         cluster.Name
	Version      string
	RecoveryMode bool
	Run          cluster.RunID // that created it; "" if tisnap did not
	PDReplicas   int
	TiKVReplicas int
	TiDBReplicas int
	// Instance is the value of the label app.kubernetes.io/instance on everything that belongs to the cluster: that
	// label of the TidbCluster itself, which Helm and Argo CD set, else its name.
	Instance string
	// TLS is spec.tlsCluster.enabled: PD and the stores accept only clients with a certificate of the cluster's CA.
	TLS bool
	// ClientCA and ClientPair are the secrets with the CA and with the certificate and key of the cluster's clients.
	ClientCA, ClientPair string
	// FailureStores is how many stores the Operator added to the replicas because others failed.
	FailureStores int
	// Scaling is true while the Operator adds or removes TiKV pods.
	Scaling     bool
	PDAddresses []string                   // client URLs of the healthy members, or of the service before all
	PDReady     int                        // healthy members of PD, from the status
	Stores      map[cluster.StoreID]string // pod by store id, from the status
	// Elsewhere are stores of the same TiDB cluster in other Kubernetes clusters, each of which is backed up by a run
	// of its own. It is nil for every cluster read from an API server.
	Elsewhere map[cluster.StoreID]bool
	TiDBReady int // healthy TiDB members, from the status
	// SQL is the host of TiDB's service; "" if a cluster of TiDB Operator 2.x has none.
	SQL    string
	Object json.RawMessage // unchanged, including unknown fields
	// Objects are those of a cluster of TiDB Operator 2.x, which has no Object, as a manifest keeps them.
	Objects []json.RawMessage
	// Own means that a restore made it for itself: it cannot be given to another one.
	Own bool
	// Unsteady is why the cluster cannot be backed up now, as far as its objects show; nil if it can.
	Unsteady error
}

// document is the part of a TidbCluster that Read decodes.
type document struct {
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
			Version  string `json:"version"` // overrides spec.version
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

// Read decodes a TidbCluster, and spec.tikv.config unchanged. An unreadable one is Corrupt.
func Read(name cluster.Name, o *unstructured.Unstructured) (tc TidbCluster, config any, err error) {
	raw, err := o.MarshalJSON()
	if err != nil {
		return TidbCluster{}, nil, failure.Wrap(err, failure.Corrupt, "read tidbcluster", name.String())
	}
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return TidbCluster{}, nil, failure.Wrap(err, failure.Corrupt, "read tidbcluster", name.String())
	}
	tc = TidbCluster{
		Name: name, Version: doc.Spec.Version, RecoveryMode: doc.Spec.RecoveryMode,
		PDReplicas: doc.Spec.PD.Replicas, TiKVReplicas: doc.Spec.TiKV.Replicas, TiDBReplicas: doc.Spec.TiDB.Replicas,
		Stores: map[cluster.StoreID]string{}, Object: raw,
		Instance:      Instance(o),
		Run:           cluster.RunID(o.GetAnnotations()[runmark.Key]),
		FailureStores: len(doc.Status.TiKV.FailureStores),
		TLS:           doc.Spec.TLSCluster.Enabled,
		Scaling:       doc.Status.TiKV.Phase == "Scale",
		ClientCA:      ClientSecret(name.Name), ClientPair: ClientSecret(name.Name),
		SQL: name.Name + "-tidb." + name.Namespace + ".svc",
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
	tc.PDReady = len(tc.PDAddresses)
	for text, s := range doc.Status.TiKV.Stores {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return TidbCluster{}, nil, failure.New(failure.Corrupt, "read tidbcluster", name.String(),
				"store id %q in its status", text)
		}
		tc.Stores[cluster.StoreID(id)] = s.PodName
	}
	for _, m := range doc.Status.TiDB.Members {
		if m.Health {
			tc.TiDBReady++
		}
	}
	return tc, doc.Spec.TiKV.Config, nil
}
