// Package ui shows the progress of a run on a terminal, as log lines or as JSON events.
//
// A Progress is a phase.Sink. It never holds a run up: Emit only queues, progress of one step replaces what
// was queued before, and one goroutine, which Close waits for, does all writing. A writer that fails is not
// written to again; the run continues.
//
// Everything goes to one stream, standard error by default: standard output is for results.
package ui
