// Package phase runs the steps of a backup or restore: in order, each with a deadline, a journal record
// before and after its effect, a time, and an undo for the case that a later step fails.
//
// Use cases declare steps and nothing else; timing, resuming and undoing are the engine's work, and so is running at
// the same time what need not wait for each other: a step says which steps it comes after, and without a word it comes
// after all that are listed before it. What a user sees timed is a phase: one or more steps in a row that share a phase
// name. Phases may overlap; each has its wall time, and the part of it in which no earlier phase was under way.
//
// The rules: a step begins only after its begin record is durable; a step that began is undone when the
// run fails, even if it failed half-way itself, unless a later step ended its effect; undo runs outside the
// cancelled context, with a deadline of its own, and its errors are joined to the cause and never dropped.
package phase
