package plan

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// byStart lists the regions by start key, then region. Keys of one cluster are alike for long: so each group is
// sorted by the first 8 bytes behind what all its keys begin with, and then each group of equal ones again.
func byStart(regions []choice, keys *keyTable) []uint32 {
	items := make([]keyed, len(regions))
	for i := range items {
		items[i].choice = uint32(i)
	}
	o := ordering{regions: regions, keys: keys}
	o.sort(items, 0)
	order := make([]uint32, len(items))
	for i := range items {
		order[i] = items[i].choice
	}
	return order
}

// keyed is a choice with 8 bytes of its start key.
type keyed struct {
	word   uint64
	choice uint32
}

type ordering struct {
	regions []choice
	keys    *keyTable
}

func (o *ordering) key(k keyed) []byte { return o.keys.bytes(o.regions[k.choice].start) }

// sort orders keys that are equal before depth and reach to it.
func (o *ordering) sort(items []keyed, depth int) {
	const few = 16
	if len(items) <= few {
		o.compare(items)
		return
	}
	depth = o.common(items, depth)
	for i := range items {
		items[i].word = word(o.key(items[i])[depth:])
	}
	slices.SortFunc(items, func(a, b keyed) int { return cmp.Compare(a.word, b.word) })
	for first := 0; first < len(items); {
		last := first + 1
		for last < len(items) && items[last].word == items[first].word {
			last++
		}
		if last-first > 1 {
			o.sortEqual(items[first:last], depth+8)
		}
		first = last
	}
}

// sortEqual orders keys whose bytes before depth are equal, if zeros stand for those of a key that is shorter.
func (o *ordering) sortEqual(items []keyed, depth int) {
	for _, k := range items {
		if len(o.key(k)) < depth {
			o.compare(items)
			return
		}
	}
	o.sort(items, depth)
}

// compare is the plain way, for few keys and for those that end inside a word.
func (o *ordering) compare(items []keyed) {
	slices.SortFunc(items, func(a, b keyed) int {
		return cmp.Or(bytes.Compare(o.key(a), o.key(b)),
			cmp.Compare(o.regions[a.choice].region, o.regions[b.choice].region))
	})
}

// common is how many bytes all keys share, if they share those before depth.
func (o *ordering) common(items []keyed, depth int) int {
	first := o.key(items[0])
	n := len(first)
	for _, k := range items[1:] {
		key := o.key(k)
		n = min(n, len(key))
		for i := depth; i < n; i++ {
			if key[i] != first[i] {
				n = i
			}
		}
		if n == depth {
			break
		}
	}
	return n
}

// word is the first 8 bytes as a number that sorts as they do, with zeros for those that are missing.
func word(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var w [8]byte
	copy(w[:], key)
	return binary.BigEndian.Uint64(w[:])
}
