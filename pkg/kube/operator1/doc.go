// Package operator1 has what is specific to TiDB Operator 1.x: the TidbCluster object, how a target's is derived from
// its source's, and the names, labels and annotations of the Operator's objects. It makes no calls.
package operator1
