package workload

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// version is a key's state from a commit on.
type version struct {
	commit cluster.TS
	row    Row
	gone   bool // deleted by row.Writer
	// prev is the transaction that wrote what the writer saw, with its commit ts if the read returned it; 0 for nothing there.
	prev, prevCommit cluster.TS
}

// change is what a transaction does to a key.
type change struct {
	key              string
	balance          int64
	gone             bool
	prev, prevCommit cluster.TS
}

// pending is a transaction whose commit was not answered.
type pending struct {
	writer  cluster.TS
	changes []change
	// by is when it was committed at the latest, if it is known to be; exact commits are moved to the versions.
	by cluster.TS
}

// History is every commit of a workload. It is safe for concurrent use.
type History struct {
	mu      sync.Mutex
	rows    map[string][]version // by commit ts
	pending []*pending
	total   int64
	floor   cluster.TS // versions below it are forgotten
}

func newHistory() *History { return &History{rows: map[string][]version{}} }

// Total is the sum of all accounts at any ts after the load.
func (h *History) Total() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// Undetermined is the number of transactions of unknown outcome.
func (h *History) Undetermined() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decide()
	return len(h.pending)
}

// At goes over the rows at ts, in no order. Undetermined transactions are left out.
func (h *History) At(ts cluster.TS) iter.Seq2[string, Row] {
	return func(yield func(string, Row) bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.decide()
		for key, versions := range h.rows {
			v, ok := at(versions, ts)
			if ok && !v.gone && !yield(key, v.row) {
				return
			}
		}
	}
}

// Forget drops what is not needed to know the rows at ts or later. Checks below ts are no longer possible.
func (h *History) Forget(ts cluster.TS) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decide()
	for _, p := range h.pending {
		ts = min(ts, p.writer)
	}
	h.floor = max(h.floor, ts)
	for key, versions := range h.rows {
		i := upper(versions, ts)
		if i > 0 && (i < len(versions) || !versions[i-1].gone) {
			i-- // the one that is visible at ts
		}
		if i == len(versions) {
			delete(h.rows, key)
		} else if i > 0 {
			h.rows[key] = slices.Clone(versions[i:])
		}
	}
}

// upper is the number of versions committed at or below ts.
func upper(versions []version, ts cluster.TS) int {
	i, found := slices.BinarySearchFunc(versions, ts, func(v version, ts cluster.TS) int { return cmp.Compare(v.commit, ts) })
	if found {
		i++
	}
	return i
}

func at(versions []version, ts cluster.TS) (version, bool) {
	i := upper(versions, ts)
	if i == 0 {
		return version{}, false
	}
	return versions[i-1], true
}

// loaded notes new accounts.
func (h *History) loaded(writer, commit cluster.TS, changes []change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		h.total += c.balance
	}
	h.insert(writer, commit, changes)
}

// committed notes a transaction whose commit ts is known.
func (h *History) committed(writer, commit cluster.TS, changes []change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.insert(writer, commit, changes)
}

// unanswered notes a transaction that may have been committed.
func (h *History) unanswered(writer cluster.TS, changes []change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = append(h.pending, &pending{writer: writer, changes: changes})
}

// insert keeps the versions of a key in the order of commits: clients report out of order.
func (h *History) insert(writer, commit cluster.TS, changes []change) {
	for _, c := range changes {
		v := version{
			commit: commit, row: Row{Balance: c.balance, Writer: writer}, gone: c.gone, prev: c.prev, prevCommit: c.prevCommit,
		}
		versions := h.rows[c.key]
		h.rows[c.key] = slices.Insert(versions, upper(versions, commit), v)
	}
}

// isAccount distinguishes accounts, whose sum is constant, from rows about transfers.
func isAccount(key string) bool { return strings.HasPrefix(key, accountPrefix) }
