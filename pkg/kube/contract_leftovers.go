package kube

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Leftover is what a restore has left of its target in Kubernetes.
type RestoreLeftover struct {
	Cluster cluster.Name
	Run     cluster.RunID
	// UID is that of the TidbCluster, if it is there and the run made it.
	UID string
	// Serves says why the cluster may serve, or may use the claims although the run did not make it; "" if neither.
	Serves string
	// Claims and Volumes are the names of the PVCs and PVs that carry the run, or belong to the cluster that it made.
	Claims, Volumes []string
	// Handles are the EBS volumes of these PVs that the run made.
	Handles []cluster.VolumeID
	// Bound has all claims of the namespace, by name, with the PV that each is bound to, or "".
	Bound map[string]string
	// Absent says that no TidbCluster of the name is there. Only then there are Strays.
	Absent bool
	Strays []Stray
}

// Stray is a claim of the target's name, or a PV of one, that carries no run although its TidbCluster is gone: a
// StatefulSet made it, of a target that an earlier version took away or of a cluster that is no run's. Nobody deletes
// it.
type Stray struct {
	Claim  string           // its name; "" if only the PV is left
	Volume string           // the PV's name; "" if there is none
	Handle cluster.VolumeID // of that PV
}

// Empty reports whether nothing is left that carries the run.
func (l RestoreLeftover) Empty() bool { return l.UID == "" && len(l.Claims)+len(l.Volumes) == 0 }

// Leftovers is what gc needs to take away a target that a dead restore has left.
type Leftovers interface {
	// Leftover finds what the run has left of the target, and changes nothing. Kinds: Denied, Limited, Unknown.
	Leftover(ctx context.Context, name cluster.Name, run cluster.RunID) (RestoreLeftover, error)
	// DeleteLeftover deletes that target as DeleteCluster does, and only the one that was found: a TidbCluster with
	// another UID, or one that has left recovery mode since, is a Conflict and stays, at whatever moment that happens.
	// It returns when all of it is gone, and may be called again. EBS volumes that the run made stay.
	DeleteLeftover(ctx context.Context, found RestoreLeftover) error
}
