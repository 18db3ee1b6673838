// Package round is the product's whole job, once: a cluster under load is backed up, destroyed and restored
// onto new volumes, and the restored cluster is proven right row by row. The demo and the soak run it.
package round
