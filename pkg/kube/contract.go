package kube

import (
	"context"
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
)

// TidbCluster is a cluster of TiDB Operator 1.x, the only generation so far.
type TidbCluster = operator1.TidbCluster

// Target is the cluster that a restore creates.
type Target = operator1.Target

// Pod is a TiKV pod.
type Pod struct {
	Name    string
	Ordinal int
	Node    string // "" while it is not scheduled
	Ready   bool
	// Reason is why it is not running, from its status and events; "" if it is.
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
	// Claim and Object are the unmodified PVC and PV, for the manifest.
	Claim, Object json.RawMessage
}

// Clusters is what a backup needs. It is read-only.
type Clusters interface {
	// Cluster reads a TidbCluster. A missing one is NotFound and the hint lists those that exist in the namespace.
	Cluster(ctx context.Context, name cluster.Name) (TidbCluster, error)
	// TiKVPods lists the existing TiKV pods with their volumes, by ordinal, without claims and volumes that no pod
	// uses. A pod whose claim is not bound to an EBS volume is Unready.
	TiKVPods(ctx context.Context, name cluster.Name) ([]Pod, error)
}

// RestoredVolume is a volume to bind to a pod of the target.
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
	Expires   string // put on the PV of a drill: see cage.ExpiresKey
	// Claim and Object are the source's PVC and PV; everything but names, ids, zone, size and status is kept.
	Claim, Object json.RawMessage
	// Filled is the claim whose volume this is, instead of one of EC2's; nil without.
	Filled *FilledClaim
}

// FilledClaim is a claim of a CSI driver that was filled with a volume of the target.
type FilledClaim struct {
	blockvolume.Claim        // zero before it is filled
	Driver            string `json:"driver"`
	Class             string `json:"storageClass"`
}

// Restorer is what a restore needs. Each method that writes is idempotent for the same run. A source is what the backup
// has of its cluster's objects: manifest.Kubernetes.Source.
type Restorer interface {
	Clusters
	Identity
	// Claims lists the names of the cluster's TiKV PVCs, used or not.
	Claims(ctx context.Context, name cluster.Name) ([]string, error)
	// OperatorOf chooses the generation of TiDB Operator, "1" or "2", of a target: that of the cluster if it exists,
	// otherwise the source's, unless only the other one is installed; why is for one that is not the source's.
	OperatorOf(ctx context.Context, name cluster.Name, source string) (chosen, why string, err error)
	// Allowed checks, by SelfSubjectAccessReview, every permission that a restore of the source into the namespace
	// needs, and returns Denied with the first missing verb and resource.
	Allowed(ctx context.Context, namespace string, source json.RawMessage) error
	// NodeRules returns what the pod of each volume will ask of its node, except for the zone, which is the volume's.
	// exists means that the cluster was created by others.
	NodeRules(
		ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool,
	) ([]podnodes.Rules, error)
	// DryRun asks the API server for everything that the methods below will create, without creating it, and finds
	// leftover claims and missing StorageClasses and TLS secrets. exists means that the cluster was created by others.
	DryRun(ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool) error
	// CreateCluster creates the target from the source's object: it sets name, namespace and recovery mode, and drops
	// the status and server-set fields. An existing cluster that another run (or a person) made is a Conflict. The
	// volumes are those that its stores will have; they need no ids.
	CreateCluster(ctx context.Context, source json.RawMessage, to Target, volumes ...RestoredVolume) error
	// BindVolume creates the PV and the PVC of a restored volume. The PV's name is unique to the run; the PVC has the
	// name that the target's StatefulSet expects. Of a filled claim the PV takes the place: see blockvolume.Exchange.
	BindVolume(ctx context.Context, v RestoredVolume) error
	// TiDBPods lists the names of the cluster's TiDB pods that may be running, including terminating ones.
	TiDBPods(ctx context.Context, name cluster.Name) ([]string, error)
	// Waiting returns why the cluster is not up: which pods are not running and why, or why none were created. NotFound
	// if the cluster does not exist.
	Waiting(ctx context.Context, name cluster.Name) ([]string, error)
	// CrashLoops lists the TiKV pods that are not running and were restarted at least so many times, with TiKV's last
	// words if its log is readable.
	CrashLoops(ctx context.Context, name cluster.Name, restarts int) ([]CrashLoop, error)
	// StartTiKV lets the stores start on their volumes, which were all given to BindVolume before.
	StartTiKV(ctx context.Context, name cluster.Name, volumes ...RestoredVolume) error
	// LeaveRecovery clears recovery mode and restarts the TiKV pods, all at once. TiDB does not start yet.
	LeaveRecovery(ctx context.Context, name cluster.Name) error
	// StartTiDB lets TiDB start in a cluster that CreateCluster created.
	StartTiDB(ctx context.Context, name cluster.Name) error
	// DeleteCluster deletes the TidbCluster that the run made, with its StatefulSets, pods, claims and PVs, and returns
	// when they are gone. It keeps the EBS volumes that the run made; those that Kubernetes made for the cluster, of
	// PD, go. Claims that are older than the cluster stay. Transient errors are retried until ctx ends. A cluster that
	// another run made is a Conflict and stays; so is one that serves, by its TiDB or, unless the caller itself has
	// left recovery mode, by that.
	DeleteCluster(ctx context.Context, name cluster.Name, run cluster.RunID, left bool) error
	// DeleteRestored deletes the claims and PVs that the run made for a cluster created by others, and keeps the
	// cluster and the EBS volumes. Call it only before StartTiKV: afterwards pods use them.
	DeleteRestored(ctx context.Context, name cluster.Name, run cluster.RunID) error
	// MadeForTarget lists the EBS volumes that Kubernetes made for the claims of a cluster that the run made: PD's.
	MadeForTarget(ctx context.Context, name cluster.Name, run cluster.RunID) ([]cluster.VolumeID, error)
	// Remaining lists the persistent volumes that Kubernetes made for the cluster's claims (PD's, for one) and that
	// DeleteCluster could not have deleted, since their reclaim policy is Retain: as "PV (vol-…)".
	Remaining(ctx context.Context, name cluster.Name, run cluster.RunID) ([]string, error)
}

// Handles is what gc needs: which EBS volumes a Kubernetes cluster knows. It is read-only.
type Handles interface {
	// Handles maps every EBS volume named by a persistent volume to that one's name, whatever its phase and origin.
	Handles(ctx context.Context) (map[cluster.VolumeID]string, error)
	Identity
	// Server returns the API server's URL, for display: several clusters may share it.
	Server() string
}

// Identity distinguishes Kubernetes clusters.
type Identity interface {
	// ClusterUID returns the UID of the namespace kube-system, which distinguishes Kubernetes clusters for gc. Kinds:
	// Denied, Limited, Unknown.
	ClusterUID(ctx context.Context) (string, error)
}
