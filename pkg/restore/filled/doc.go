// Package filled makes the volumes of a restore from an archive without any snapshot: it asks for an empty block volume
// of a CSI driver for each archived one, fills those of each store by a Kubernetes Job, and removes them when the
// restore is undone. Nothing of it needs AWS.
package filled
