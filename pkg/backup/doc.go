// Package backup takes a backup of a running cluster: preflight, lock, hold, backup ts, cut, release, record, wait,
// seal. runbook.go lists the steps, and steps*.go passes what one makes to the next. The work is done by parts, each
// with its own state and few dependencies: source, timestamps, earlyApply, marker, holder, room, cutter, completion,
// remover and recorder.
//
// Guarantees: Run returns nil only if the backup is sealed. The cluster is released as soon as EC2 has accepted the
// last snapshot, and on every other exit. A set that was cut while the hold was in doubt, or that lacks a snapshot, is
// deleted and never recorded as complete.
package backup
