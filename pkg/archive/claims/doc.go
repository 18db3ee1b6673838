// Package claims restores an archive straight to volumes of any CSI driver: it asks for an empty block volume for each
// archived one, and fills those of a store by a Kubernetes Job, whose pod runs `tisnap archive fill`.
package claims
