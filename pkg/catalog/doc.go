// Package catalog is the set of backups below one storage prefix: which exist, in which state, and the
// manifests of those that can be restored. It reads objects by pkg/manifest's layout and adds two rules:
// an id is taken once (Claim), and only a sealed backup is loaded (Load).
package catalog
