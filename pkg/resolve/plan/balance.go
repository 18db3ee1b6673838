package plan

import "github.com/tisnap/tisnap/pkg/saturate"

// balance gives each choice to one of the stores that may have it, so that no store leads more regions than it
// has to, and returns how many each leads. First every choice goes to the store that leads the smallest so far;
// then regions move along paths from a store to one that leads at smallest two fewer, until there is no such path:
// no other choice has a smaller largest store, nor a smaller sum of squares.
func balance(c *choices, order []uint32) []int {
	load := make([]int, len(c.stores))
	for _, i := range order {
		s := &c.regions[i]
		for _, other := range c.candidates(s) {
			if load[other] < load[s.store] {
				s.store = other
			}
		}
		load[s.store]++
	}
	low, high := load[0], load[0]
	for _, n := range load {
		low, high = min(low, n), max(high, n)
	}
	if high-low < 2 {
		return load
	}
	g := newMoves(c, order, load)
	for g.shift() {
	}
	return load
}

// choices lists the stores that may have the choice; none if there is but one.
func (c *choices) candidates(s *choice) []uint16 {
	if s.ties < 2 {
		return nil
	}
	return c.may[s.may : s.may+uint32(s.ties)]
}

// moves knows which regions each store can give to which other.
type moves struct {
	c    *choices
	load []int
	// give[a*n+b] are regions that a may give to b. One that a has lost in the meantime is skipped when it is met.
	give [][]uint32
}

func newMoves(c *choices, order []uint32, load []int) *moves {
	g := &moves{c: c, load: load, give: make([][]uint32, len(load)*len(load))}
	for _, i := range order {
		g.offer(i)
	}
	return g
}

// offer lists the choice under its store for all others that may have it.
func (g *moves) offer(i uint32) {
	s := &g.c.regions[i]
	for _, to := range g.c.candidates(s) {
		if to != s.store {
			at := int(s.store)*len(g.load) + int(to)
			g.give[at] = append(g.give[at], i)
		}
	}
}

// next is a choice that from has and may give to to, or false.
func (g *moves) next(from, to int) (uint32, bool) {
	at := from*len(g.load) + to
	for n := len(g.give[at]); n > 0; n-- {
		i := g.give[at][n-1]
		if int(g.c.regions[i].store) == from {
			return i, true
		}
		g.give[at] = g.give[at][:n-1]
	}
	return 0, false
}

// shift moves one choice along a shortest path from a store to one that leads at smallest two fewer.
func (g *moves) shift() bool {
	for from := range g.load {
		if path := g.path(from); path != nil {
			for k := len(path) - 1; k > 0; k-- {
				i, _ := g.next(path[k-1], path[k])
				g.c.regions[i].store = saturate.To[uint16](path[k])
				g.offer(i)
			}
			g.load[path[0]]--
			g.load[path[len(path)-1]]++
			return true
		}
	}
	return false
}

// path searches breadth-first from a store to one that leads at smallest two fewer.
func (g *moves) path(from int) []int {
	before := make([]int, len(g.load))
	for i := range before {
		before[i] = -1
	}
	before[from] = from
	queue := []int{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if g.load[at] <= g.load[from]-2 {
			path := []int{at}
			for at != from {
				at = before[at]
				path = append([]int{at}, path...)
			}
			return path
		}
		for to := range g.load {
			if before[to] < 0 {
				if _, ok := g.next(at, to); ok {
					before[to] = at
					queue = append(queue, to)
				}
			}
		}
	}
	return nil
}
