// Package ui shows the progress of a run on a terminal, as log lines or as JSON events.
//
// A Progress is a phase.Sink. It never delays a run: Emit only queues, a step's progress replaces its queued
// predecessor, and one goroutine, which Close waits for, does all writing. A failed writer is not used again; the run
// continues.
//
// Everything goes to one stream, standard error by default: standard output is for results.
package ui
