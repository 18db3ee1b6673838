// Package runner is what backups, restores and resolves have in common as runs: the storage's identity, the lock that
// keeps other runs off the cluster, the journal, and resuming a run whose process died.
//
// What a run does is in its steps, which the caller supplies; the engine of package phase executes them.
package runner
