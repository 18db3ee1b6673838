package cluster

import (
	"fmt"
	"strconv"
	"time"
)

// TS is a timestamp of PD's oracle: milliseconds since 1970 in the upper 46 bits, a counter in the lower 18. In JSON it
// is a string, as it does not fit into a double.
type TS uint64

const logicalBits = 18

// MakeTS composes a timestamp from a wall-clock time and a logical counter.
func MakeTS(t time.Time, logical uint32) TS {
	// times before 1970 do not occur in PD
	return TS(uint64(t.UnixMilli())<<logicalBits | uint64(logical)&(1<<logicalBits-1))
}

// Time is the physical part, to the millisecond, in UTC.
func (t TS) Time() time.Time {
	return time.UnixMilli(int64(t >> logicalBits)).UTC() // 46 bits fit
}

// String is the decimal number, as PD, TiDB and br print it.
func (t TS) String() string { return strconv.FormatUint(uint64(t), 10) }

// Lag is how far t lies behind now; negative if t is ahead.
func (t TS) Lag(now time.Time) time.Duration { return now.Sub(t.Time()) }

// MarshalText is the decimal number.
func (t TS) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(t), 10), nil }

// UnmarshalText reads a decimal number; anything else is an error.
func (t *TS) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%q is no timestamp: %w", text, err)
	}
	*t = TS(n)
	return nil
}
