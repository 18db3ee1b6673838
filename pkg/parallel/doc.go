// Package parallel calls a function for many items at the same time. All fan-outs of the module go through it,
// so that a panic, a cancelled context and a second error are treated alike everywhere.
package parallel
