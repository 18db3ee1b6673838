package operator2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clusterDoc is the part of a Cluster that is read.
type clusterDoc struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Paused        bool `json:"paused"`
		SuspendAction struct {
			SuspendCompute bool `json:"suspendCompute"`
		} `json:"suspendAction"`
		TLSCluster struct {
			Enabled bool `json:"enabled"`
		} `json:"tlsCluster"`
		Security struct {
			TLS struct {
				Client struct {
					CA          secretRef `json:"ca"`
					CertKeyPair secretRef `json:"certKeyPair"`
				} `json:"client"`
			} `json:"tls"`
		} `json:"security"`
	} `json:"spec"`
	Status struct {
		PD string `json:"pd"` // URL of PD's service
	} `json:"status"`
}

type secretRef struct {
	Name string `json:"name"`
}

// groupDoc is the part of a group, of any component, that is read.
type groupDoc struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Cluster  secretRef `json:"cluster"`
		Replicas int       `json:"replicas"`
		Template struct {
			Spec struct {
				Version string `json:"version"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		status        `json:",inline"`
		ReadyReplicas int `json:"readyReplicas"`
	} `json:"status"`
}

// tikvDoc is the part of a TiKV instance that is read.
type tikvDoc struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Offline bool     `json:"offline"`
		Config  string   `json:"config"` // TOML
		Volumes []volume `json:"volumes"`
	} `json:"spec"`
	Status struct {
		status `json:",inline"`
		ID     string `json:"id"`
		State  string `json:"state"`
	} `json:"status"`
}

type status struct {
	ObservedGeneration int64       `json:"observedGeneration"`
	CurrentRevision    string      `json:"currentRevision"`
	UpdateRevision     string      `json:"updateRevision"`
	Conditions         []condition `json:"conditions"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

type volume struct {
	Name   string  `json:"name"`
	Mounts []mount `json:"mounts"`
}

type mount struct {
	Type      string `json:"type"` // "" for a mount that only the configuration gives a meaning
	MountPath string `json:"mountPath"`
}
