package preflight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/preflight"
)

func TestCheckResolvedTS_BelowAnEarlierBackup_IsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld()
	rules := preflight.TSRules{MaxLag: maxLag, NotBelow: w.resolved.TS, Newest: "b-7"}
	require.NoError(t, preflight.CheckResolvedTS(t.Context(), w, prod, w.resolved, rules), "the same is not below")
	rules.NotBelow++
	err := preflight.CheckResolvedTS(t.Context(), w, prod, w.resolved, rules)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "below that of the earlier backup b-7")
	require.NotEmpty(t, failure.HintOf(err))
}

func TestCheckResolvedTS_BelowWhatWasWaitedFor_IsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld()
	err := preflight.CheckResolvedTS(t.Context(), w, prod, w.resolved, preflight.TSRules{MaxLag: maxLag, Passes: w.resolved.TS + 1})
	require.ErrorContains(t, err, "--consistent-now")
}

// With --consistent-now a resolved ts that lags is waited for, not refused; one that is off is refused.
func TestBackup_ResolvedTSAwaited_MayLag(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.resolved.TS = cluster.MakeTS(now().Add(-time.Hour), 0)
	limits := preflight.Limits{TS: preflight.TSRules{MaxLag: maxLag}, AwaitsTS: true}
	_, err := preflight.Backup(t.Context(), w, w, w, prod, limits)
	require.NoError(t, err)
	w.resolved.TS = 0
	_, err = preflight.Backup(t.Context(), w, w, w, prod, limits)
	require.ErrorContains(t, err, "it is 0")
}

// frozen is a world whose resolved ts does not advance for a while and then jumps (tikv/tikv#15520).
type frozen struct {
	*world
	until time.Time
	fail  error // of the first call
}

func (f *frozen) ResolvedTS(context.Context) (pd.ResolvedTS, error) {
	if err := f.fail; err != nil {
		f.fail = nil
		return pd.ResolvedTS{}, err
	}
	got := f.resolved
	if !time.Now().Before(f.until) {
		got.TS = cluster.MakeTS(now(), 1)
	}
	return got, nil
}

func TestAwaitResolvedTS_FrozenFor8Minutes(t *testing.T) {
	t.Parallel()
	for limit, ok := range map[time.Duration]bool{10 * time.Minute: true, 5 * time.Minute: false} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &frozen{world: newWorld(), until: time.Now().Add(8 * time.Minute), fail: failure.New(failure.Limited, "read", "", "no leader")}
				f.resolved.Stores[2] = cluster.MakeTS(now().Add(-8*time.Minute), 0)
				var notes []string
				start := time.Now()
				err := preflight.AwaitResolvedTS(t.Context(), f, prod, cluster.MakeTS(now(), 0), limit, func(s string) { notes = append(notes, s) })
				require.NotEmpty(t, notes)
				require.Contains(t, notes[0], "store 2 (prod-tikv-1:20160), 8m0s behind")
				if ok {
					require.NoError(t, err)
					require.InDelta(t, 8*time.Minute, time.Since(start), float64(3*time.Second))
					return
				}
				require.Equal(t, failure.Unready, failure.KindOf(err))
				require.ErrorContains(t, err, "within 5m0s it did not reach")
				require.ErrorContains(t, err, "store 2 (prod-tikv-1:20160)")
				require.Contains(t, failure.HintOf(err), "transfer leaders")
				require.Contains(t, failure.HintOf(err), "tikv_resolved_ts_min_resolved_ts_region", "TiKV's name for the region")
			})
		})
	}
}

func TestAwaitResolvedTS_CancelledOrDenied_EndsAtOnce(t *testing.T) {
	t.Parallel()
	reason := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	w := newWorld()
	fresh := cluster.MakeTS(now().Add(time.Hour), 0)
	require.ErrorIs(t, preflight.AwaitResolvedTS(ctx, w, prod, fresh, time.Hour, func(string) {}), reason)
	w.fail["ResolvedTS"] = failure.New(failure.Denied, "read", "", "tls")
	require.Equal(t, failure.Denied, failure.KindOf(preflight.AwaitResolvedTS(t.Context(), w, prod, fresh, time.Hour, func(string) {})))
}

func TestRunningImports_OfEitherSign_AreFound(t *testing.T) {
	t.Parallel()
	w := newWorld()
	stores := []cluster.Store{{ID: 1, Address: "a:1"}, {ID: 2, Address: "b:1"}}
	found, err := preflight.RunningImports(t.Context(), w, w, stores)
	require.NoError(t, err)
	require.Empty(t, found)
	w.tasks = []pd.ImportTask{{Kind: "lightning", Name: "l-1"}}
	w.modes = map[string]bool{"b:1": true}
	found, err = preflight.RunningImports(t.Context(), w, w, stores)
	require.NoError(t, err)
	require.Equal(t, []string{"lightning l-1", "store 2 (b:1) is in import mode"}, found)
	err = preflight.RefuseImports(prod, found)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "lightning l-1")
	require.Contains(t, failure.HintOf(err), "--on-import=pause")
	for _, method := range []string{"ImportTasks", "ImportMode"} {
		w.fail = map[string]error{method: errors.New("no answer")}
		_, err = preflight.RunningImports(t.Context(), w, w, stores)
		require.ErrorContains(t, err, "no answer", method)
	}
}

func TestParseImportPolicy(t *testing.T) {
	t.Parallel()
	for _, s := range preflight.ImportPolicies() {
		p, err := preflight.ParseImportPolicy(s)
		require.NoError(t, err)
		require.Equal(t, s, string(p))
	}
	_, err := preflight.ParseImportPolicy("ignore")
	require.Equal(t, failure.Usage, failure.KindOf(err))
}
