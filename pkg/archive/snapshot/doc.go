// Package snapshot reads EBS snapshots as the volumes of an archive, and makes snapshots of archived volumes, by the
// EBS direct APIs.
package snapshot
