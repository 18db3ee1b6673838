package failure

// Kind is what the caller or operator can do next, not what went wrong inside.
type Kind uint8

// The kinds, in the order of their exit codes.
const (
	Unknown  Kind = iota // a bug, or an error missing from a dependency's table: retried until the step's deadline
	Usage                // the request can never succeed: change it
	NotFound             // the backup, cluster, volume or object does not exist
	Unready              // a precondition does not hold; nothing was changed
	Conflict             // another run holds the lock or changed the object
	Denied               // credentials or permissions; the hint names the missing action
	Limited              // throttled, over a quota or out of time: safe to run again later
	Partial              // usable but incomplete
	Held                 // the live cluster is still held: a person has to act now
	Corrupt              // data does not match its digest, or is inconsistent
	Stale                // a cluster has no good backup as young as wanted
	Unproven             // a drill restored the backup, and its checks did not pass
	Leaked               // a drill left what it made, which is billed by AWS until it is removed
)

var kindNames = [...]string{
	"unknown", "usage", "not-found", "unready", "conflict", "denied", "limited", "partial", "held", "corrupt",
	"stale", "unproven", "leaked",
}

// Interrupted is the kind in reports, events and metrics of a run that a signal ended, whatever failed because of that.
const Interrupted = "interrupted"

// KindNames are the kinds' names, in the order of their exit codes, and Interrupted.
func KindNames() []string { return append(kindNames[:len(kindNames):len(kindNames)], Interrupted) }

// String returns the kind's name in JSON output and logs; it never changes between versions.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Unknown]
}
