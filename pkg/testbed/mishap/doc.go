// Package mishap draws, from a seed, what goes wrong during a backup and at which of its calls: a call that is
// refused, loses its answer, hangs or is slow; a store that restarts or forgets; a PD that restarts, changes its
// leader or is tampered with; a signal to the program. The same seed draws the same.
package mishap
