package fenced

// Holder is who has a run's lock, according to a read of it. The zero value is unknown.
type Holder int

// The holders of a lock.
const (
	HolderUnknown  Holder = iota // unreadable or missing
	HolderThis                   // this process has it, or had it last
	HolderSameRun                // another process of the same run has it, or had it since
	HolderOtherRun               // another run has it
	HolderEndedRun               // another run has had it since, and has released it or died
)

// Replaced reports whether another process, of this run or another, has certainly taken the lock.
func (h Holder) Replaced() bool { return h > HolderThis }
