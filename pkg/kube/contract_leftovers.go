package kube

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// RestoreLeftover is what a restore left of its target in Kubernetes.
type RestoreLeftover struct {
	Cluster cluster.Name
	Run     cluster.RunID
	// UID is the TidbCluster's UID, if it exists and the run made it.
	UID string
	// Serves is why the cluster may serve, or may use the claims although the run did not make it; "" if neither.
	Serves string
	// Claims and Volumes are the names of the PVCs and PVs that are marked with the run, or belong to the cluster that
	// it made.
	Claims, Volumes []string
	// Handles are the EBS volumes of these PVs that the run made.
	Handles []cluster.VolumeID
	// Bound has all claims of the namespace, by name, with the PV that each is bound to, or "".
	Bound map[string]string
	// Absent reports that no TidbCluster of the name exists. Only then are there Strays.
	Absent bool
	Strays []Stray
}

// Stray is a claim with the target's name, or the PV of one, without a run mark although its TidbCluster is gone: it
// was made by a StatefulSet, of a target that an earlier version removed or of an unrelated cluster. It is never
// deleted.
type Stray struct {
	Claim  string           // its name; "" if only the PV is left
	Volume string           // the PV's name; "" if there is none
	Handle cluster.VolumeID // of that PV
}

// Empty reports whether nothing with the run's mark is left.
func (l RestoreLeftover) Empty() bool { return l.UID == "" && len(l.Claims)+len(l.Volumes) == 0 }

// Leftovers is what gc needs to remove a target that a dead restore left.
type Leftovers interface {
	// Leftover finds what the run left of the target, without changing anything. Kinds: Denied, Limited, Unknown.
	Leftover(ctx context.Context, name cluster.Name, run cluster.RunID) (RestoreLeftover, error)
	// DeleteLeftover deletes that target as DeleteCluster does, and only the one that was found: a TidbCluster with
	// another UID, or one that has left recovery mode since, is a Conflict and stays, at whatever moment that happens.
	// It returns when all of it is gone, and may be called again. EBS volumes that the run made stay.
	DeleteLeftover(ctx context.Context, found RestoreLeftover) error
}
