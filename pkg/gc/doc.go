// Package gc removes what nobody needs: backups that a person names (Delete), and snapshots, volumes and fast snapshot
// restores that runs which died or failed left in the account (Collect).
//
// What it finds in EC2 it finds by the tag of the run. It acts only on runs whose journal is in the storage that it was
// given: the account may hold those of other storages. In doubt it keeps and says why.
//
// It never deletes a snapshot that a sealed manifest names, anything of a run whose lock is alive, a locked snapshot,
// or a volume that is attached, that a persistent volume names, or whose restore came so far that its cluster served. A
// backup is buried (a tombstone in the place of its seal) before its first snapshot goes, so that a run that was
// thought dead cannot seal it any more.
//
// What a restore left in Kubernetes (TidbCluster, claims, persistent volumes) goes as one, only if that is asked for
// (Options.Clusters, Abort), in the Kubernetes cluster that the run noted by its UID, under the target's lock, and
// never if the cluster may serve or a resolve has, or had, it. What carries no run, and an earlier version's restore
// may have left, is named and stays: claims, persistent volumes, and EBS volumes that nothing in Kubernetes has any
// more.
package gc
