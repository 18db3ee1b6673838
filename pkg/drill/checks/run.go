package checks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tidb"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Options are what is checked, and for how long.
type Options struct {
	Statements []Statement
	// Tables is how many tables, chosen by Seed, TiDB compares with their indexes; AllTables is all, in the same random
	// order.
	Tables    int
	AllTables bool
	Seed      uint64
	// Sums are checksums of tables as they were at BackupTS.
	Sums     map[tidb.Table]tidb.Checksum
	BackupTS cluster.TS
	// Budget bounds all checks together: what is left when it ends is skipped. Each bounds one of them.
	Budget, Each time.Duration
}

// retryInterval is the pause after an error that passes, such as that of a region without a leader.
const retryInterval = time.Second

// Run makes the checks, one after another: the statements, the checksums, then the tables. An error means that ctx
// ended or that the tables could not be listed.
func Run(ctx context.Context, db tidb.Database, opts Options) (*Result, error) {
	r := &runs{db: db, each: opts.Each, result: Result{Seed: opts.Seed, Checks: []Check{}}}
	budget, cancel := context.WithTimeout(ctx, opts.Budget)
	defer cancel()
	tables, err := db.Tables(budget)
	if err != nil {
		return nil, failure.Annotate(err, "list tables to check", "")
	}
	r.result.Tables = len(tables)
	for i := range opts.Statements {
		r.statement(budget, &opts.Statements[i], opts.BackupTS)
	}
	byName := func(a, b tidb.Table) int { return strings.Compare(a.String(), b.String()) }
	for _, t := range slices.SortedFunc(maps.Keys(opts.Sums), byName) {
		r.checksum(budget, t, opts.Sums[t])
	}
	for _, t := range opts.choose(tables) {
		r.table(budget, t)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.result.conclude(opts.asked())
	return &r.result, nil
}

// asked are the kinds of checks that the options ask for.
func (o *Options) asked() []Kind {
	var kinds []Kind
	if len(o.Statements) > 0 {
		kinds = append(kinds, OfStatement)
	}
	if len(o.Sums) > 0 {
		kinds = append(kinds, OfChecksum)
	}
	if o.AllTables || o.Tables > 0 {
		kinds = append(kinds, OfTable)
	}
	return kinds
}

// choose returns the tables to check, in a random order that the seed repeats.
func (o *Options) choose(tables []tidb.Table) []tidb.Table {
	chosen := slices.Clone(tables)
	random := rand.New(rand.NewPCG(o.Seed, 0))
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	if !o.AllTables && len(chosen) > o.Tables {
		chosen = chosen[:o.Tables]
	}
	return chosen
}

// runs makes checks one after another.
type runs struct {
	db     tidb.Database
	each   time.Duration
	result Result
}

// mismatch is what a check found in the data.
type mismatch string

// Error is what was found.
func (m mismatch) Error() string { return string(m) }

func (r *runs) statement(ctx context.Context, s *Statement, backup cluster.TS) {
	r.check(ctx, OfStatement, s.Name, func(ctx context.Context) error {
		rows, err := r.db.Query(ctx, s.SQL, maxRows)
		if failure.Is(err, failure.NotFound) {
			return mismatch("a table that it names does not exist")
		}
		if err != nil {
			return err
		}
		if why := s.mismatch(rows, backup); why != "" {
			return mismatch(why)
		}
		return nil
	})
}

func (r *runs) table(ctx context.Context, t tidb.Table) {
	r.check(ctx, OfTable, t.String(), func(ctx context.Context) error { return r.db.CheckTable(ctx, t) })
}

func (r *runs) checksum(ctx context.Context, t tidb.Table, want tidb.Checksum) {
	r.check(ctx, OfChecksum, t.String(), func(ctx context.Context) error {
		got, err := r.db.Checksum(ctx, t)
		switch {
		case failure.Is(err, failure.NotFound):
			return mismatch("the table does not exist")
		case err != nil:
			return err
		case got != want:
			return mismatch(fmt.Sprintf(
				"its checksum differs from that at the backup: %d keys of %d bytes instead of %d of %d",
				got.KVs, got.Bytes, want.KVs, want.Bytes))
		}
		return nil
	})
}

// check makes one check, and makes it again after errors that pass, until its time or the budget has passed.
func (r *runs) check(ctx context.Context, kind Kind, name string, try func(context.Context) error) {
	c := Check{Kind: kind, Name: name, Outcome: Skipped, Why: "no time was left"}
	defer func() { r.result.Checks = append(r.result.Checks, c) }()
	if ctx.Err() != nil {
		return
	}
	begin := time.Now()
	bounded, cancel := context.WithTimeout(ctx, r.each)
	defer cancel()
	err := wait.Until(bounded, wait.Every(retryInterval), func() (bool, error) {
		err := try(bounded)
		return !failure.Is(err, failure.Limited) || bounded.Err() != nil, err
	})
	c.Seconds = time.Since(begin).Seconds()
	c.Outcome, c.Why = r.outcome(bounded, err)
}

// outcome classifies the error of a check.
func (r *runs) outcome(ctx context.Context, err error) (Outcome, string) {
	var found mismatch
	switch {
	case err == nil:
		return Passed, ""
	case errors.As(err, &found), failure.Is(err, failure.Corrupt):
		return Failed, failure.Line(wait.Reason(err).Error())
	case ctx.Err() != nil:
		return TimedOut, fmt.Sprintf("not done within %s, or when the budget ended: %v", r.each, wait.Reason(err))
	}
	return NotMade, failure.Line(err.Error())
}
