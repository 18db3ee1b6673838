// Package phase runs the steps of a backup or restore: in order, each with a deadline, a journal record before and
// after its effect, a measured time, and an undo in case a later step fails.
//
// Use cases only declare steps; timing, resuming and undoing are the engine's work, and so is running independent steps
// concurrently: a step names the steps that it comes after, by default all listed before it. Users see times of phases:
// one or more consecutive steps that share a phase name. Phases may overlap; each has its wall time, and the part of it
// in which no earlier phase was running.
//
// The rules: a step begins only after its begin record is durable; if the run fails, every step that began is undone,
// even one that failed halfway, unless a later step ended its effect; undo runs outside the cancelled context, with its
// own deadline, and its errors are joined to the cause and never dropped.
package phase
