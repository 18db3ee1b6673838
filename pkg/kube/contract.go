package kube

import (
	"context"
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// TidbCluster is a cluster of TiDB Operator 1.x, the one generation that there is so far.
type TidbCluster = operator1.TidbCluster

// Target is the cluster that a restore makes.
type Target = operator1.Target

// Pod is a TiKV pod.
type Pod struct {
	Name    string
	Ordinal int
	Node    string // "" while it is not scheduled
	Ready   bool
	// Reason is why it does not run, from its status and events; "" when it runs.
	Reason string
	// Instance is the EC2 instance of the node, from the node's provider id; "" if the node has none.
	Instance cluster.InstanceID
	Zone     cluster.Zone
	Mounts   []Mount
}

// Mount is an EBS volume of a pod, found through its claim and persistent volume.
type Mount struct {
	Role      cluster.Role // from the TiKV configuration and the mount path
	MountPath string
	PVC, PV   string
	Volume    cluster.VolumeID
	Class     string // storage class
	// Claim and Object are the PVC and the PV as they are, for the manifest.
	Claim, Object json.RawMessage
}

// Clusters is what a backup needs: it reads clusters and changes nothing.
type Clusters interface {
	// Cluster reads a TidbCluster. A missing one is NotFound and the hint lists those that exist in the namespace.
	Cluster(ctx context.Context, name cluster.Name) (TidbCluster, error)
	// TiKVPods lists the TiKV pods that exist now, with their volumes, by ordinal. Claims and volumes that no
	// pod uses are left out. A pod whose claim is not bound to an EBS volume is Unready.
	TiKVPods(ctx context.Context, name cluster.Name) ([]Pod, error)
}

// RestoredVolume is a volume to be bound to a pod of the target.
type RestoredVolume struct {
	Cluster   cluster.Name
	Instance  string // TidbCluster.Instance of the target; "" is its name
	Run       cluster.RunID
	Ordinal   int // of the target's TiKV pod
	Role      cluster.Role
	MountPath string
	Volume    cluster.VolumeID
	Zone      cluster.Zone
	SizeGiB   int64
	// Claim and Object are the source's PVC and PV; everything but names, ids, zone, size and status is kept.
	Claim, Object json.RawMessage
	// Fence is asked before the claim is made: the volume may take long to be available, and another run may have the
	// target by then. Nil is for a caller that knows.
	Fence func(context.Context) error
}

// Restorer is what a restore needs. Each method that writes is idempotent for the same run.
type Restorer interface {
	Clusters
	Identity
	// Claims lists the names of the cluster's TiKV PVCs, used or not.
	Claims(ctx context.Context, name cluster.Name) ([]string, error)
	// Allowed asks by SelfSubjectAccessReview for everything that a restore into the namespace does, and
	// returns Denied naming the first verb and resource that is missing.
	Allowed(ctx context.Context, namespace string) error
	// DryRun asks the API server for all that the methods below will make, without making it, and finds claims left
	// behind, StorageClasses and TLS secrets that are missing. exists says that somebody else made the cluster.
	DryRun(ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool) error
	// CreateCluster makes the target from the source's object: name, namespace and recovery mode are set, status and
	// what the source's server filled in are dropped. An existing cluster that another run (or a person) made is a
	// Conflict.
	CreateCluster(ctx context.Context, source json.RawMessage, to Target) error
	// BindVolume makes the PV and the PVC of a restored volume. Names are unique to the run for the PV; the
	// PVC has the name that the target's StatefulSet expects.
	BindVolume(ctx context.Context, v RestoredVolume) error
	// TiDBPods lists the names of the cluster's TiDB pods that may run: those that are ending count, too.
	TiDBPods(ctx context.Context, name cluster.Name) ([]string, error)
	// Waiting says why the cluster is not up: which pods do not run and why, or why none were made. NotFound if the
	// cluster does not exist.
	Waiting(ctx context.Context, name cluster.Name) ([]string, error)
	// CrashLoops lists the TiKV pods that do not run now and were restarted at least so many times, with TiKV's last
	// words if its log may be read.
	CrashLoops(ctx context.Context, name cluster.Name, restarts int) ([]CrashLoop, error)
	// StartTiKV sets the annotation by which the Operator knows that the volumes are ready.
	StartTiKV(ctx context.Context, name cluster.Name) error
	// LeaveRecovery clears recovery mode and restarts the TiKV pods, all at once. TiDB does not start yet.
	LeaveRecovery(ctx context.Context, name cluster.Name) error
	// StartTiDB lets TiDB start in a cluster that CreateCluster has made.
	StartTiDB(ctx context.Context, name cluster.Name) error
	// DeleteCluster deletes the TidbCluster that the run made, with its StatefulSets, pods, claims and PVs, and returns
	// when they are gone. It keeps the EBS volumes that the run made; those that Kubernetes made for the cluster, of
	// PD, go. Claims that are older than the cluster stay. Transient errors are retried until ctx ends. A cluster that
	// another run made is a Conflict and stays; so is one that serves, by its TiDB or, unless the caller itself has
	// left recovery mode, by that.
	DeleteCluster(ctx context.Context, name cluster.Name, run cluster.RunID, left bool) error
	// DeleteRestored deletes the claims and PVs that the run made for a cluster that somebody else made, and
	// keeps the cluster and the EBS volumes. Call it only before StartTiKV: afterwards pods use them.
	DeleteRestored(ctx context.Context, name cluster.Name, run cluster.RunID) error
	// MadeForTarget lists the EBS volumes that Kubernetes made for the claims of a cluster that the run made: PD's.
	MadeForTarget(ctx context.Context, name cluster.Name, run cluster.RunID) ([]cluster.VolumeID, error)
	// Remaining lists the persistent volumes that Kubernetes made for the cluster's claims (PD's, for one) and that
	// DeleteCluster could not have deleted, since their reclaim policy is Retain: as "PV (vol-…)".
	Remaining(ctx context.Context, name cluster.Name, run cluster.RunID) ([]string, error)
}

// Handles is what gc needs: it says which EBS volumes a Kubernetes cluster knows and changes nothing.
type Handles interface {
	// Handles maps every EBS volume that a persistent volume names to the name of that one, whatever its
	// phase and whoever made it.
	Handles(ctx context.Context) (map[cluster.VolumeID]string, error)
	Identity
	// Server is the URL of the API server, for a person: it may be alike in many clusters.
	Server() string
}

// Identity distinguishes Kubernetes clusters.
type Identity interface {
	// ClusterUID is the UID of the namespace kube-system, by which gc knows one Kubernetes cluster from another.
	// Kinds: Denied, Limited, Unknown.
	ClusterUID(ctx context.Context) (string, error)
}
