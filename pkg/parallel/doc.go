// Package parallel calls a function for many items concurrently. All fan-outs go through it, so that panics, cancelled
// contexts and second errors are handled alike everywhere.
package parallel
