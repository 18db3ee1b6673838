package cluster

import (
	"strconv"
	"time"
)

// TS is a timestamp of PD's oracle: milliseconds since 1970 in the upper 46 bits, a counter in the lower 18.
type TS uint64

const logicalBits = 18

// MakeTS composes a timestamp from a wall-clock time and a logical counter.
func MakeTS(t time.Time, logical uint32) TS {
	return TS(uint64(t.UnixMilli())<<logicalBits | uint64(logical)&(1<<logicalBits-1)) // times before 1970 do not occur in PD
}

// Time is the physical part, to the millisecond, in UTC.
func (t TS) Time() time.Time {
	return time.UnixMilli(int64(t >> logicalBits)).UTC() // 46 bits fit
}

// String is the decimal number, as PD, TiDB and br print it.
func (t TS) String() string { return strconv.FormatUint(uint64(t), 10) }

// Lag is how far t lies behind now; negative if t is ahead.
func (t TS) Lag(now time.Time) time.Duration { return now.Sub(t.Time()) }
