// Package gc removes what is not needed: backups named by the user (Delete), and snapshots, volumes and fast snapshot
// restores that dead or failed runs left in the account (Collect).
//
// It finds resources in EC2 by their run tag, and acts only on runs with a journal in the given storage: the account
// may be shared with other storages. In doubt it keeps a resource and reports why.
//
// It never deletes a snapshot that a sealed manifest names, anything of a run with a live lock, a locked snapshot, or a
// volume that is attached, that a persistent volume names, or whose restored cluster has served. A backup is buried (a
// tombstone replaces its seal) before its first snapshot is deleted, so that a run wrongly thought dead can no longer
// seal it.
//
// What a restore left in Kubernetes (TidbCluster, claims, persistent volumes) is deleted as a unit, only on request
// (Options.Clusters, Abort), in the Kubernetes cluster whose UID the run recorded, under the target's lock, and never
// if the cluster may serve or a resolve has, or had, it. Resources without a run tag, which an earlier version's
// restore may have left, are listed but kept: claims, persistent volumes, and EBS volumes no longer used in Kubernetes.
package gc
