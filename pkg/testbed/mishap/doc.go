// Package mishap draws, from a seed, what goes wrong during a backup and at which of its calls: a call that is
// refused, loses its answer, hangs or is slow; a store that restarts or forgets; a PD that restarts, changes its
// leader or is tampered with; a merge or split that begins just before the leases; a signal to the program; another tool
// that holds the cluster already. The same seed draws the same.
package mishap
