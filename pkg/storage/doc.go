// Package storage identifies the storage at a prefix, by a random id in an object at its root, and proves that its
// server rejects a write whose condition fails, on which the locks rely.
//
// A copy of a prefix, by replication or from a backup of the bucket, has all objects of the original but refers to the
// original's snapshots, which the original still needs. So an identity is bound to a location, and a copy deletes
// nothing.
package storage
