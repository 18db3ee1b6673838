// Package podnodes decides which nodes a pod may be put on, by its node selector, its required node affinity and its
// tolerations.
package podnodes
