// Package failures is the folder of the named failures: a test for each failure that users of this and related
// tools have reported in public, with the code of its entry in the catalogue above it, that injects the fault into the
// testbed and looks at what the run reports and at what it leaves. Each group of failures is a folder of its own.
//
// The tests run whole backups and restores, so make test leaves them out: make test-failures runs them.
package failures
