package plan

// cursor walks over the peers of one store.
type cursor struct {
	region uint64 // of the next peer
	store  uint16
	table  *StoreMetas
	next   int
	end    int
}

func (c *cursor) peer() *peerRow { return c.table.at(c.next) }

// queue is a heap of the stores' cursors by region, then store: it meets the peers of a region one after the
// other, in the order of the stores.
type queue []cursor

// newQueue walks over the regions in [from, to), or [from, to] if it is the last part.
func newQueue(tables []*StoreMetas, from, to uint64, last bool) queue {
	q := make(queue, 0, len(tables))
	for i, t := range tables {
		c := cursor{store: uint16(i), table: t, next: t.from(from), end: t.Len()}
		if !last {
			c.end = t.from(to)
		}
		if c.next < c.end {
			c.region = c.peer().region
			q = append(q, c)
		}
	}
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
	return q
}

// len is how many peers are left.
func (q queue) len() int {
	n := 0
	for _, c := range q {
		n += c.end - c.next
	}
	return n
}

// advance goes to the next peer.
func (q *queue) advance() {
	h := *q
	c := &h[0]
	if c.next++; c.next < c.end {
		c.region = c.peer().region
	} else {
		h[0] = h[len(h)-1]
		h = h[:len(h)-1]
		*q = h
	}
	h.sink(0)
}

func (q queue) before(i, k int) bool {
	return q[i].region < q[k].region || q[i].region == q[k].region && q[i].store < q[k].store
}

func (q queue) sink(i int) {
	for {
		smallest := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(q); k++ {
			if q.before(k, smallest) {
				smallest = k
			}
		}
		if smallest == i {
			return
		}
		q[i], q[smallest] = q[smallest], q[i]
		i = smallest
	}
}
