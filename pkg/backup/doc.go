// Package backup takes a backup of a running cluster: preflight, lock, hold, backup ts, cut, release,
// record, wait, seal. runbook.go lists the steps; each is in the file of its name.
//
// What it guarantees: Run returns nil only if the backup is sealed. The cluster is released as soon as EC2 has
// accepted the last snapshot, and on every other way out. A set that was cut while the hold was in doubt,
// or that lacks a snapshot, is deleted and never recorded as complete.
package backup
