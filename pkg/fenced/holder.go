package fenced

// Holder is who has a run's lock, as a read of it shows. The zero value is unknown.
type Holder int

// The holders of a lock.
const (
	HolderUnknown  Holder = iota // it cannot be read, or is not there
	HolderThis                   // this process has it, or had it last
	HolderSameRun                // another process of the same run has it, or had it since
	HolderOtherRun               // another run has it
	HolderEndedRun               // another run has had it since, and has released it or is dead
)

// Replaced reports whether another process, of this run or of another, has taken the lock for sure.
func (h Holder) Replaced() bool { return h > HolderThis }
