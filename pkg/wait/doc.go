// Package wait pauses under a context. All pauses go through it: time.Sleep would outlast a run that was cancelled.
package wait
