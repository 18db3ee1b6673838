package cluster

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/tisnap/tisnap/pkg/failure"
)

// KeyRange is [Start, End); an empty End is the end of the key space, an empty Start its beginning.
type KeyRange struct {
	Start, End []byte
}

// Contains reports whether key is in the range.
func (r KeyRange) Contains(key []byte) bool {
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

// Tile checks that ranges cover the whole key space exactly once and says where they do not.
// The slice is sorted by start key in place. An error is Corrupt and lists at most limit faults.
func Tile(ranges []KeyRange, limit int) error {
	sort.Slice(ranges, func(i, j int) bool { return bytes.Compare(ranges[i].Start, ranges[j].Start) < 0 })
	if len(ranges) == 0 {
		return failure.New(failure.Corrupt, "cover key space", "", "no range at all")
	}
	var faults []string
	add := func(what string, r KeyRange) { faults = append(faults, what+" "+r.String()) }
	if len(ranges[0].Start) > 0 {
		add("hole", KeyRange{End: ranges[0].Start})
	}
	for i := 1; i < len(ranges); i++ {
		prev, cur := ranges[i-1], ranges[i]
		switch {
		case len(prev.End) == 0 || bytes.Compare(cur.Start, prev.End) < 0:
			add("overlap", KeyRange{Start: cur.Start, End: minEnd(prev.End, cur.End)})
		case bytes.Compare(cur.Start, prev.End) > 0:
			add("hole", KeyRange{Start: prev.End, End: cur.Start})
		}
	}
	if last := ranges[len(ranges)-1]; len(last.End) > 0 {
		add("hole", KeyRange{Start: last.End})
	}
	if len(faults) == 0 {
		return nil
	}
	shown := faults
	if len(shown) > limit {
		shown = shown[:limit]
	}
	return failure.New(failure.Corrupt, "cover key space", "", "%d faults: %v", len(faults), shown)
}

func minEnd(a, b []byte) []byte {
	if len(a) == 0 || (len(b) > 0 && bytes.Compare(b, a) < 0) {
		return b
	}
	return a
}
