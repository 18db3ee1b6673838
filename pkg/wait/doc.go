// Package wait lets time pass under a context. It is the only way to pause: time.Sleep would outlast a run
// that was cancelled.
package wait
