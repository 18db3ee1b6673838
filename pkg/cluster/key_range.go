package cluster

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/failure"
)

// KeyRange is [Start, End) of encoded keys; an empty End is the end of the key space, an empty Start its beginning.
type KeyRange struct {
	Start, End EncodedKey
}

// Contains reports whether key is in the range.
func (r KeyRange) Contains(key EncodedKey) bool {
	return bytes.Compare(key, r.Start) >= 0 && (len(r.End) == 0 || bytes.Compare(key, r.End) < 0)
}

// String prints both ends in hexadecimal, "-inf" and "+inf" for the open ones.
func (r KeyRange) String() string {
	start, end := "-inf", "+inf"
	if len(r.Start) > 0 {
		start = fmt.Sprintf("%X", r.Start)
	}
	if len(r.End) > 0 {
		end = fmt.Sprintf("%X", r.End)
	}
	return "[" + start + ", " + end + ")"
}

// Tile checks that ranges cover the whole key space exactly once. It sorts the slice by start key in place. The error
// is Corrupt and lists at most limit faults.
func Tile(ranges []KeyRange, limit int) error {
	byStart := func(a, b KeyRange) int { return bytes.Compare(a.Start, b.Start) }
	if !slices.IsSortedFunc(ranges, byStart) {
		slices.SortFunc(ranges, byStart)
	}
	if len(ranges) == 0 {
		return failure.New(failure.Corrupt, "cover key space", "", "no range at all")
	}
	var shown []string
	faults := 0
	add := func(what string, r KeyRange) {
		if faults++; faults <= limit {
			shown = append(shown, what+" "+r.String())
		}
	}
	// Everything before reach is covered or reported; at the end of the key space reach is empty and open is false.
	reach, open := EncodedKey{}, true
	for _, r := range ranges {
		if len(r.End) > 0 && bytes.Compare(r.Start, r.End) >= 0 {
			add("empty range", r)
			continue
		}
		switch before := bytes.Compare(r.Start, reach); {
		case !open || before < 0:
			add("overlap", KeyRange{Start: r.Start, End: minEnd(reach, r.End)})
		case before > 0:
			add("hole", KeyRange{Start: reach, End: r.Start})
		}
		switch {
		case len(r.End) == 0:
			reach, open = nil, false
		case open && bytes.Compare(r.End, reach) > 0:
			reach = r.End
		}
	}
	if open {
		add("hole", KeyRange{Start: reach})
	}
	if faults == 0 {
		return nil
	}
	return failure.New(failure.Corrupt, "cover key space", "", "%d faults: %v", faults, shown)
}

func minEnd(a, b EncodedKey) EncodedKey {
	if len(a) == 0 || (len(b) > 0 && bytes.Compare(b, a) < 0) {
		return b
	}
	return a
}
