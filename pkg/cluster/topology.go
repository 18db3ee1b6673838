package cluster

// Volume is one EBS volume of a TiKV store and the Kubernetes objects that bind it.
type Volume struct {
	ID        VolumeID `json:"volumeID"`
	Role      Role     `json:"role"`
	MountPath string   `json:"mountPath"`
	PVC       string   `json:"pvc"`
	PV        string   `json:"pv"`
	Zone      Zone     `json:"zone"`
	VolumeSpec
	Encrypted bool   `json:"encrypted,omitempty"`
	KMSKey    string `json:"kmsKey,omitempty"`
}

// Store is one TiKV store, its pod, the instance that the pod runs on and its volumes.
type Store struct {
	ID       StoreID    `json:"id"`
	Address  string     `json:"address"` // host:port of its gRPC service, as PD lists it
	Pod      string     `json:"pod"`
	Ordinal  int        `json:"ordinal"`
	Node     string     `json:"node"`
	Instance InstanceID `json:"instance"`
	Volumes  []Volume   `json:"volumes"`
}

// Topology is a running cluster as found by preflight: stores in PD = pods = PVCs = PVs = volumes.
type Topology struct {
	Cluster      Name     `json:"cluster"`
	ClusterID    uint64   `json:"clusterID"`
	Version      string   `json:"version"` // of TiKV, "8.5.0"
	PD           []string `json:"pd"`      // client URLs
	PDReplicas   int      `json:"pdReplicas"`
	TiDBReplicas int      `json:"tidbReplicas"`
	Stores       []Store  `json:"stores"`
	// TiFlashStores is the number of TiFlash stores, whose data is not in a backup.
	TiFlashStores int `json:"tiflashStores,omitempty"`
}

// VolumeIDs lists the volumes of all stores, in the stores' order.
func (t *Topology) VolumeIDs() []VolumeID {
	var ids []VolumeID
	for _, s := range t.Stores {
		for _, v := range s.Volumes {
			ids = append(ids, v.ID)
		}
	}
	return ids
}

// Peer is a region's replica on a store.
type Peer struct {
	ID      PeerID  `json:"id"`
	Store   StoreID `json:"store"`
	Learner bool    `json:"learner,omitempty"`
	Witness bool    `json:"witness,omitempty"` // a voter that has the log and no data
}

// Region is a region as PD knows it.
type Region struct {
	ID       RegionID `json:"id"`
	Keys     KeyRange `json:"keys"`
	ConfVer  uint64   `json:"confVer"`
	Version  uint64   `json:"version"`
	Peers    []Peer   `json:"peers"`
	Leader   Peer     `json:"leader"` // zero if PD knows none
	Pending  []PeerID `json:"pending,omitempty"`
	DownPeer []PeerID `json:"downPeers,omitempty"`
	// Joint is whether several members are being changed at once: old and new voters decide together.
	Joint bool `json:"joint,omitempty"`
}
