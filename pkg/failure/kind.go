package failure

// Kind is what the person or program on call can do next, not what went wrong inside.
type Kind uint8

// The kinds, in the order of the exit codes that they become.
const (
	Unknown  Kind = iota // a bug, or a dependency's error that no table knows: retried until the step's deadline
	Usage                // the request can never work: change it
	NotFound             // the backup, cluster, volume or object does not exist
	Unready              // a precondition does not hold; nothing was changed
	Conflict             // somebody else holds the lock or changed the object
	Denied               // credentials or permissions; the hint names the missing action
	Limited              // throttled, over a quota or out of time: safe to run again later
	Partial              // usable but incomplete
	Held                 // the live cluster was not put back: a person has to act now
	Corrupt              // data contradict their digest or each other
)

var kindNames = [...]string{
	"unknown", "usage", "not-found", "unready", "conflict", "denied", "limited", "partial", "held", "corrupt",
}

// String is the kind's name in JSON output and logs; it never changes between versions.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Unknown]
}
