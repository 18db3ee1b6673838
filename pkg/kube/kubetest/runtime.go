package kubetest

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Runtime starts and stops the processes of pods, as the kubelet does. All methods may be called from
// several goroutines at once, but never twice at once for the same process.
type Runtime interface {
	// StartPD starts the members of a cluster's PD and returns their client URLs by ordinal.
	StartPD(ctx context.Context, name cluster.Name, replicas int) (clientURLs []string, err error)
	StopPD(name cluster.Name)
	// StartTiKV launches a store on its attached volumes; it need not be ready when the call returns.
	StartTiKV(ctx context.Context, p TiKVPod) error
	// StopTiKV kills a store; afterwards it no longer touches its volumes.
	StopTiKV(ctx context.Context, name cluster.Name, pod string)
	// TiKV reports how a store is doing: the id that it registered with PD (0 before), its address, and
	// whether it is ready; if not, why.
	TiKV(name cluster.Name, pod string) (id cluster.StoreID, address string, ready bool, reason string)
	// ClusterID is that of the cluster in PD, 0 before it is bootstrapped.
	ClusterID(name cluster.Name) uint64
	// Regions is how many regions a store has, and how many of these it leads.
	Regions(name cluster.Name, pod string) (leaders, regions int)
	StartTiDB(ctx context.Context, name cluster.Name, replicas int) error
	// TiDBReady is how many TiDB servers answer.
	TiDBReady(name cluster.Name) int
	StopTiDB(name cluster.Name)
}

// TiKVPod is a TiKV pod that is to run.
type TiKVPod struct {
	Cluster cluster.Name
	Pod     string
	Ordinal int
	// Recovery is spec.recoveryMode at the time of the start.
	Recovery bool
	Volumes  []PodVolume
	// Host is its DNS name in the Kubernetes cluster, without that one's domain.
	Host string
}

// PodVolume is an attached volume of a pod.
type PodVolume struct {
	Role      cluster.Role
	Driver    string           // of CSI
	Volume    cluster.VolumeID // the driver's id of it
	MountPath string
	PV        string // its name
}

// NewVolume is a volume that a CSI driver is to make: of a claim, with the name of its PV.
type NewVolume struct {
	PV      string
	Claim   types.NamespacedName
	Zone    cluster.Zone
	SizeGiB int64
	Class   string
}

// Disks makes and attaches volumes, as a CSI driver does.
type Disks interface {
	Provision(ctx context.Context, v NewVolume) (cluster.VolumeID, error)
	// Attach fails, as EC2 does, if the volume is not available or not in the instance's zone.
	Attach(ctx context.Context, v cluster.VolumeID, i cluster.InstanceID) error
	Detach(ctx context.Context, v cluster.VolumeID) error
	// Modify gives a volume the size and the performance of the class, by EC2's ModifyVolume.
	Modify(ctx context.Context, v cluster.VolumeID, sizeGiB int64, class string) error
	// Delete fails while the volume is attached; one that does not exist is no error.
	Delete(ctx context.Context, v cluster.VolumeID) error
	// Zone is "" for a volume that does not exist.
	Zone(v cluster.VolumeID) cluster.Zone
}
