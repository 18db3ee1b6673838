package volume

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Lost are blocks of a volume, First to Last, that cannot be read: their map, or their pack, is damaged.
type Lost struct {
	First, Last int64
	Err         error // why the first of them cannot be read; it names the object
	pack        format.PackName
}

// String is the blocks, as "5" or "5-9".
func (l Lost) String() string {
	if l.First == l.Last {
		return fmt.Sprint(l.First)
	}
	return fmt.Sprintf("%d-%d", l.First, l.Last)
}

// lost collects blocks, in any order.
type lost struct {
	mu  sync.Mutex
	all []Lost
}

func (l *lost) add(index int64, pack format.PackName, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, Lost{index, index, err, pack})
}

// ranges joins the blocks that follow each other and are of one pack.
func (l *lost) ranges() (out []Lost) {
	slices.SortFunc(l.all, func(a, b Lost) int { return cmp.Compare(a.First, b.First) })
	for _, next := range l.all {
		if n := len(out); n > 0 && out[n-1].Last+1 == next.First && out[n-1].pack == next.pack {
			out[n-1].Last = next.Last
			continue
		}
		out = append(out, next)
	}
	return out
}

// failed is the error for a volume's lost blocks; nil if there are none. It is Corrupt, and names them.
func failed(op string, v format.Volume, lost []Lost) error {
	if len(lost) == 0 {
		return nil
	}
	names := make([]string, len(lost))
	for i, l := range lost {
		names[i] = l.String()
	}
	return failure.New(failure.Corrupt, op, v.Role, "blocks %s are damaged: %w", failure.List(names), lost[0].Err)
}
