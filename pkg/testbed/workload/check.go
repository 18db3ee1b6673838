package workload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// shownFaults is how many faults an error names.
const shownFaults = 10

// Result is the outcome of holding a copy against the history.
type Result struct {
	TS           cluster.TS // of the history
	Rows         int        // rows in the copy
	Total        int64      // sum of the copy's accounts
	Undetermined int        // transactions whose two outcomes were both accepted
	Missing      int        // rows that should be there
	Extra        int        // rows that should not be there
	Wrong        int        // rows with another value
	Torn         int        // transactions of which a part is there
	Locks        int        // locks left over
	Faults       []string   // the first faults, in words
}

// OK reports whether the copy is exactly right.
func (r Result) OK() bool { return r.Missing+r.Extra+r.Wrong+r.Torn+r.Locks == 0 && len(r.Faults) == 0 }

// Err is nil if the copy is exactly right, else Corrupt and names the first faults.
func (r Result) Err() error {
	if r.OK() {
		return nil
	}
	return failure.New(failure.Corrupt, "verify rows", "timestamp "+r.TS.String(),
		"%d missing, %d extra, %d wrong, %d torn transactions, %d locks: %s",
		r.Missing, r.Extra, r.Wrong, r.Torn, r.Locks, strings.Join(r.Faults, "; "))
}

func (r *Result) fault(count *int, format string, args ...any) {
	if count != nil {
		*count++
	}
	if len(r.Faults) < shownFaults {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// Check holds a copy against the history at ts: the total, each row, missing and extra rows, and that every
// transaction is there as a whole or not. All transactions that began before ts must have ended.
func (h *History) Check(c *Copy, ts cluster.TS) Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decide()
	r := Result{TS: ts, Rows: len(c.Rows)}
	if ts < h.floor {
		r.fault(nil, "the history before %s is forgotten", h.floor)
		return r
	}
	maybe := map[string][]*pending{}
	for _, p := range h.pending {
		if p.writer >= ts {
			continue
		}
		r.Undetermined++
		for _, change := range p.changes {
			maybe[change.key] = append(maybe[change.key], p)
		}
	}
	for _, key := range c.Unreadable {
		r.fault(&r.Wrong, "%s is not a row", key)
	}
	for key, row := range c.Rows {
		if isAccount(key) {
			r.Total += row.Balance
		}
		if _, known := h.rows[key]; !known && len(maybe[key]) == 0 {
			r.fault(&r.Extra, "%s was never written", key)
		}
	}
	for key, versions := range h.rows {
		h.checkRow(&r, c, key, versions, maybe[key])
	}
	for key, some := range maybe {
		if _, known := h.rows[key]; !known {
			h.checkRow(&r, c, key, nil, some)
		}
	}
	h.checkWhole(&r, c, ts)
	if r.Total != h.total {
		r.fault(nil, "the total is %d instead of %d", r.Total, h.total)
	}
	return r
}

// checkRow holds one key against its last certain version and the transactions that may have come after.
func (h *History) checkRow(r *Result, c *Copy, key string, versions []version, maybe []*pending) {
	got, there := c.Rows[key]
	want, ok := at(versions, r.TS)
	for _, p := range maybe {
		change := p.on(key)
		if ok && p.writer < want.commit {
			continue // overwritten
		}
		left := version{row: Row{Balance: change.balance, Writer: p.writer}, gone: change.gone}
		if left.is(got, there) {
			return
		}
		if p.by > 0 && p.by <= r.TS {
			want, ok = left, true
		}
	}
	present := ok && !want.gone
	switch {
	case present && !there:
		r.fault(&r.Missing, "%s is missing", key)
	case !present && there:
		r.fault(&r.Extra, "%s should not be there", key)
	case present && got != want.row:
		r.fault(&r.Wrong, "%s is %d of %s instead of %d of %s", key, got.Balance, got.Writer, want.row.Balance, want.row.Writer)
	}
}

// is reports whether what was read is this version.
func (v version) is(got Row, there bool) bool {
	return there == !v.gone && (!there || got == v.row)
}

func (p *pending) on(key string) change {
	i := slices.IndexFunc(p.changes, func(c change) bool { return c.key == key })
	return p.changes[i]
}

// checkWhole looks for undetermined transactions of which only a part is there.
func (h *History) checkWhole(r *Result, c *Copy, ts cluster.TS) {
	for _, p := range h.pending {
		if p.writer >= ts {
			continue
		}
		applied, older := 0, 0
		for _, change := range p.changes {
			got, there := c.Rows[change.key]
			switch {
			case change.gone && !there: // inconclusive: it may be someone else's delete
			case change.gone && got.Writer < p.writer, !change.gone && (!there || got.Writer < p.writer):
				older++
			case got.Writer == p.writer:
				applied++
			}
		}
		if applied > 0 && older > 0 {
			r.fault(&r.Torn, "of transaction %s %d keys are there and %d are not", p.writer, applied, older)
		}
	}
}
