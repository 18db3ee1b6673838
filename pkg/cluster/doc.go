// Package cluster is the vocabulary of a TiDB cluster on EBS: identifiers, timestamps, stores, their
// volumes and key ranges. It does no I/O, reads no clock and imports nothing of this module but failure.
package cluster
