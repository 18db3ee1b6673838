package workload

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// decide uses what later transactions saw to find out what became of those that were not answered. Deciding one
// may decide another that it saw, so it continues until nothing changes.
func (h *History) decide() {
	for again := true; again; {
		again = false
		h.pending = slices.DeleteFunc(h.pending, func(p *pending) bool {
			commit, by, dead := h.evidence(p)
			switch {
			case dead:
			case commit > 0:
				h.insert(p.writer, commit, p.changes)
			case by > 0 && p.by == 0:
				p.by, again = by, true
				return false
			default:
				return false
			}
			again = true
			return true
		})
	}
}

// evidence looks at the first commit on one of the transaction's keys that started or ended after it started.
// If that commit saw the transaction, it was committed: exactly at commit, or if the read did not return when, by
// the time that the read was made. If it saw an older one, the transaction is dead: its commit and this one would
// have been a conflict, in either order.
func (h *History) evidence(p *pending) (commit, by cluster.TS, dead bool) {
	for _, c := range p.changes {
		versions := h.rows[c.key]
		i := upper(versions, p.writer)
		if i == len(versions) {
			continue
		}
		next := versions[i]
		switch {
		case next.prev == p.writer && next.prev != 0:
			if next.prevCommit > 0 {
				return next.prevCommit, 0, false
			}
			by = next.row.Writer
		case c.gone && next.prev == 0: // it saw nothing there: perhaps this delete
		case next.prev > p.writer: // that one comes first, and is unknown yet
		default:
			return 0, 0, p.by == 0
		}
	}
	return 0, by, false
}

// settle asks the cluster about each transaction that was not answered, and rolls back those that are still open.
func (h *History) settle(ctx context.Context, c *Cluster) error {
	h.mu.Lock()
	h.decide()
	open := slices.Clone(h.pending)
	h.mu.Unlock()
	for _, p := range open {
		commit, decided, err := c.fate(ctx, p)
		if err != nil {
			return err
		}
		if !decided {
			continue
		}
		h.mu.Lock()
		h.pending = slices.DeleteFunc(h.pending, func(other *pending) bool { return other == p })
		if commit > 0 {
			h.insert(p.writer, commit, p.changes)
		}
		h.mu.Unlock()
	}
	return nil
}
