// Package operator1 is what is TiDB Operator 1.x's own: the document of a TidbCluster, how a target's is made of its
// source's, and the names, labels and annotations of what the Operator makes. It calls nobody.
package operator1
