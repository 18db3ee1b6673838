// Package copyrun copies a sealed backup into another storage: its snapshots into a region and account, perhaps under
// another key, and its manifest into the storage there. The copy is an ordinary backup of that storage, sealed as the
// last thing. The journal is in the target's storage; the source's has a lease, so that the backup is not deleted
// meanwhile.
package copyrun
