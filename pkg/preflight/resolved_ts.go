package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/wait"
)

// TSRules are what a resolved ts must satisfy to become a backup ts.
type TSRules struct {
	// MaxLag is how far it may lie behind PD's clock.
	MaxLag time.Duration
	// NotBelow is the backup ts of the cluster's newest sealed backup, 0 if there is none: a resolved ts never
	// decreases, so a lower one is another cluster's, or PD's clock went back.
	NotBelow cluster.TS
	// Newest is the backup of NotBelow.
	Newest cluster.BackupID
	// Passes is a timestamp that it must have reached, or 0.
	Passes cluster.TS
}

// settings keep the resolved ts at 0 if one of them is off (TiDB Operator's FAQ).
const settings = "resolved-ts.enable (TiKV), raftstore.report-min-resolved-ts-interval (TiKV) and " +
	"min-resolved-ts-persistence-interval (PD)"

// advice is the remedy for a resolved ts that does not advance (tikv/tikv#15520, tikv/tikv#13838).
//
// client-go resolves the locks of a pipelined transaction, as of tidb_dml_type=bulk, from its first key to before its
// last one: where the last is a region's first, that lock stays. TiKV names the region by a metric
// (components/resolved_ts/src/metrics.rs).
const advice = "transfer leaders away from the lagging store and restart it, or look for a very long transaction, " +
	"or one that left a lock, as a bulk statement may: the lock ends when its row is read, or when GC passes it; " +
	"the lagging store's metric tikv_resolved_ts_min_resolved_ts_region is the region's id, of which " +
	"information_schema.tikv_region_status names the table"

func checkResolvedTS(ctx context.Context, p PD, name cluster.Name, limits Limits) (cluster.TS, error) {
	got, err := p.ResolvedTS(ctx)
	if err != nil {
		return 0, failure.Annotate(err, "read resolved ts", name.String())
	}
	if limits.AwaitsTS {
		return got.TS, reported(name, got)
	}
	return got.TS, CheckResolvedTS(ctx, p, name, got, limits.TS)
}

// reported fails if the resolved ts is 0: the feature is off, or the cluster has just started.
func reported(name cluster.Name, got pd.ResolvedTS) error {
	switch {
	case got.TS == 0:
		return failure.New(failure.Unready, "check resolved ts", name.String(), "it is 0: the stores do not report it").
			WithHint("turn on %s, or wait a minute after the cluster has started", settings)
	case !got.RealTime && got.Interval == 0:
		return failure.New(failure.Unready, "check resolved ts", name.String(),
			"PD no longer tracks it: min-resolved-ts-persistence-interval is 0").
			WithHint("turn on %s", settings)
	}
	return nil
}

// CheckResolvedTS refuses a resolved ts that is off, too old, behind GC or behind an earlier backup, and names the
// store that holds it back. Both preflight and the choice of the backup ts use it.
func CheckResolvedTS(ctx context.Context, p PD, name cluster.Name, got pd.ResolvedTS, rules TSRules) error {
	if err := reported(name, got); err != nil {
		return err
	}
	now, err := p.Now(ctx)
	if err != nil {
		return failure.Annotate(err, "take timestamp", name.String())
	}
	if lag := got.TS.Lag(now.Time()); lag > rules.MaxLag {
		return failure.New(failure.Unready, "check resolved ts", name.String(),
			"it lags %s behind, more than --max-lag %s%s",
			lag, rules.MaxLag, laggards(ctx, p, got, now)).WithHint(advice)
	}
	if got.TS < rules.NotBelow {
		return failure.New(failure.Unready, "check resolved ts", name.String(),
			"it is %s (%s), below that of the earlier backup %s, %s (%s)",
			got.TS, got.TS.Time(), rules.Newest, rules.NotBelow, rules.NotBelow.Time()).
			WithHint(
				"find out why PD's time or the resolved ts went back; wait until it has passed the earlier backup's")
	}
	if got.TS < rules.Passes {
		return failure.New(failure.Unready, "check resolved ts", name.String(),
			"it is %s, below %s that --consistent-now waited for", got.TS, rules.Passes).
			WithHint("run it again")
	}
	_, gc, err := p.SafePoints(ctx)
	if err != nil {
		return failure.Annotate(err, "list safe points", name.String())
	}
	if gc > got.TS {
		return failure.New(failure.Unready, "check resolved ts", name.String(),
			"the GC safe point %d is past the resolved ts %d%s",
			gc, got.TS, laggards(ctx, p, got, now)).
			WithHint("raise tidb_gc_life_time, and find out why the resolved ts lags behind")
	}
	return nil
}

// How often AwaitResolvedTS polls: TiKV advances its resolved ts every 20 s by default, or once a second.
const (
	minPollInterval = 100 * time.Millisecond
	maxPollInterval = 2 * time.Second
)

// AwaitResolvedTS returns once the resolved ts has reached ts, so that it covers everything committed up to ts. After
// limit it is Unready, and names the lagging store. note is called periodically with the wait's status.
func AwaitResolvedTS(
	ctx context.Context, p PD, name cluster.Name, ts cluster.TS, limit time.Duration, note func(string),
) error {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last pd.ResolvedTS
	noted := time.Now()
	pace := func(pause time.Duration) time.Duration { return min(max(pause*3/2, minPollInterval), maxPollInterval) }
	err := wait.Until(waiting, pace, func() (bool, error) {
		got, err := p.ResolvedTS(waiting)
		switch {
		case err != nil && waiting.Err() != nil:
			return false, nil
		case err != nil:
			return !failure.Transient(err), failure.Annotate(err, "read resolved ts", name.String())
		}
		if last = got; last.TS < ts && time.Since(noted) > 5*maxPollInterval {
			noted = time.Now()
			note(fmt.Sprintf("the resolved ts is %s behind the start of this run%s", lag(last.TS, ts),
				laggards(ctx, p, last, ts)))
		}
		return last.TS >= ts, nil
	})
	switch ended := wait.EndOf(err); {
	case ended == nil:
		return err
	case ctx.Err() != nil:
		return failure.Annotate(context.Cause(ctx), "wait for resolved ts", name.String())
	case ended.Last != nil:
		return ended.Last
	}
	return failure.New(failure.Unready, "wait for resolved ts", name.String(),
		"within %s it did not reach this run's start time %s: it is %s behind%s",
		limit, ts.Time(), lag(last.TS, ts), laggards(ctx, p, last, ts)).WithHint(advice)
}

// lag returns how far ts is behind now; a ts of 0 has not been reported yet.
func lag(ts, now cluster.TS) string {
	if ts == 0 {
		return "an unknown time"
	}
	return ts.Lag(now.Time()).Round(time.Millisecond).String()
}

// together is how close the resolved ts of stores must be to count as held back by the same cause: a region whose
// leader does not advance holds back every store with a peer of it (tikv/tikv#15520).
const together = 2 * time.Second

// laggards names the stores that hold back the resolved ts, worst first, with their addresses if PD knows them.
func laggards(ctx context.Context, p PD, got pd.ResolvedTS, now cluster.TS) string {
	ids := slices.SortedFunc(maps.Keys(got.Stores), func(a, b cluster.StoreID) int {
		return cmp.Or(cmp.Compare(got.Stores[a], got.Stores[b]), cmp.Compare(a, b))
	})
	if len(ids) == 0 {
		return ""
	}
	lowest := got.Stores[ids[0]]
	ids = slices.DeleteFunc(ids,
		func(id cluster.StoreID) bool { return got.Stores[id].Time().Sub(lowest.Time()) > together })
	addresses := map[cluster.StoreID]string{}
	if stores, err := p.Stores(ctx); err == nil {
		for _, s := range stores {
			addresses[s.ID] = " (" + s.Address + ")"
		}
	}
	var names []string
	for i, id := range ids {
		if i == maxNamed {
			names = append(names, fmt.Sprintf("%d more", len(ids)-i))
			break
		}
		names = append(names, "store "+id.String()+addresses[id])
	}
	return fmt.Sprintf("; the lowest is that of %s, %s behind", strings.Join(names, ", "), lag(lowest, now))
}

// maxNamed is how many stores a message names.
const maxNamed = 5
