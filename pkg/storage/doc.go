// Package storage says which storage a prefix is, by a random id in an object at its root, and proves that its server
// does what the locks need: refuse a write whose condition does not hold.
//
// A copy of a prefix, by replication or from a backup of the bucket, has all objects of the original and none of its
// snapshots: it names those of the original, which still needs them. So the identity is of one place, and nothing is
// deleted by a copy.
package storage
