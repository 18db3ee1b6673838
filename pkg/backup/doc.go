// Package backup takes a backup of a running cluster: preflight, lock, hold, backup ts, cut, release,
// record, wait, seal. runbook.go lists the steps, and steps*.go hands what one makes to the next. What they do is in
// parts, which have a few dependencies and what they know each: source, timestamps, earlyApply, marker, holder, room,
// cutter, completion, remover and recorder.
//
// What it guarantees: Run returns nil only if the backup is sealed. The cluster is released as soon as EC2 has
// accepted the last snapshot, and on every other way out. A set that was cut while the hold was in doubt,
// or that lacks a snapshot, is deleted and never recorded as complete.
package backup
