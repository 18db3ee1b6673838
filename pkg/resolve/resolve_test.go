package resolve_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// resolverCase is one trouble that a resolve may meet.
type resolverCase struct {
	name string
	test func(t *testing.T, o *original)
}

// TestResolver resolves the copies of one cluster again and again, each time with another trouble.
func TestResolver(t *testing.T) {
	t.Parallel()
	o := makeOriginal(t)
	for _, c := range slices.Concat(troubles(), resumed(), []resolverCase{
		{"quiet day: rows are those at the backup ts, nothing is left in PD", quietDay},
		{"PD releases a part only", thawInPart},
		{"another run takes the cluster while PD is released", takenWhileThawing},
		{"a store restarts while regions are recovered", func(t *testing.T, o *original) { restartAt(t, o, "RecoverRegion") }},
		{"a store restarts while it applies", func(t *testing.T, o *original) { restartAt(t, o, "WaitApply", quickChecks) }},
		{"a store restarts while regions are prepared", func(t *testing.T, o *original) { restartAt(t, o, "KvPrepareFlashbackToVersion") }},
		{"a store restarts while keys are flashed back", func(t *testing.T, o *original) { restartAt(t, o, "KvFlashbackToVersion") }},
		{"answers of a flashback are lost", func(t *testing.T, o *original) {
			withFaults(t, o, fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Position: fault.After, Times: 7})
		}},
		{"answers of a prepare are lost", func(t *testing.T, o *original) {
			withFaults(t, o, fault.Rule{Point: "tikv.*.KvPrepareFlashbackToVersion", Position: fault.After, Times: 7})
		}},
		{"stores are busy and regions move", func(t *testing.T, o *original) {
			withFaults(t, o,
				fault.Rule{Point: "tikv.*.KvPrepareFlashbackToVersion", Code: "server_is_busy", Times: 3},
				fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Code: "not_leader", Times: 3},
				fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Nth: 5, Code: "epoch_not_match", Times: 2})
		}},
		{"a recover call is refused, another one loses its answer", func(t *testing.T, o *original) {
			l := restoreLab(t, o, 1, quickChecks)
			underFaults(t, o, l,
				fault.Rule{Point: "tikv.*.RecoverRegion", Times: 2},
				fault.Rule{Point: "tikv.*.RecoverRegion", Nth: 2, Position: fault.After},
				fault.Rule{Point: "tikv.*.WaitApply", Position: fault.After})
		}},
		{"region metas end half-way", func(t *testing.T, o *original) {
			withFaults(t, o, fault.Rule{Point: "tikv.*.ReadRegionMeta", Position: fault.After, Times: 2})
		}},
		{"PD is without a leader for a while", pdWithoutLeader},
		{"balance-leader runs in PD", balanceLeader},
		{"a newer run takes the cluster over", newerRun},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, o)
		})
	}
	t.Run("refusals", func(t *testing.T) {
		t.Parallel()
		refusals(t, o)
	})
}

func quietDay(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	r, err := l.run(t, l.config(o, "run"), nil)
	require.NoError(t, err)
	l.verify(t, o)
	stats := r.Stats()
	require.GreaterOrEqual(t, stats.Regions, 12)
	require.GreaterOrEqual(t, stats.Peers, 2*stats.Regions)
	require.GreaterOrEqual(t, stats.AllocID, uint64(5000), "the manifest's is higher than any in the data")
	require.Greater(t, l.pd.NextID(), uint64(5000))
	require.NotEmpty(t, l.pd.TTLConfigs(), "scheduling is frozen until TiDB is up")
	require.NoError(t, r.Thaw(within(t), nil))
	require.Empty(t, l.pd.TTLConfigs())
	for _, s := range l.pd.Schedulers() {
		require.Zero(t, s.PausedAt, s.Name)
	}
	require.NotContains(t, l.pd.ServiceSafePoints(), "tisnap-run")
}

// restartAt kills the first store that gets this call, and starts it again on another port.
func restartAt(t *testing.T, o *original, rpc string, tune ...func(*lab)) {
	l := restoreLab(t, o, 1, tune...)
	hit, bounced := make(chan int, len(l.stores)), make(chan struct{})
	for i, s := range l.stores {
		point := fmt.Sprintf("tikv.%d.%s", s.ID(), rpc)
		require.NoError(t, l.faults.Add(fault.Rule{Point: point, Do: func() { hit <- i }}))
	}
	ctx := within(t)
	go func() {
		defer close(bounced)
		select {
		case i := <-hit:
			l.bounce(t, i)
		case <-ctx.Done():
			t.Errorf("no store was asked for %s", rpc)
		}
	}()
	_, err := l.run(t, l.config(o, "run"), nil)
	require.NoError(t, err)
	<-bounced
	l.verify(t, o)
}

func withFaults(t *testing.T, o *original, rules ...fault.Rule) {
	underFaults(t, o, restoreLab(t, o, 1), rules...)
}

func underFaults(t *testing.T, o *original, l *lab, rules ...fault.Rule) {
	for _, r := range rules {
		require.NoError(t, l.faults.Add(r))
	}
	_, err := l.run(t, l.config(o, "run"), nil)
	require.NoError(t, err)
	require.Empty(t, l.faults.Unreached())
	l.verify(t, o)
}

// A new leader of PD knows neither regions' leaders nor pauses of schedulers.
func pdWithoutLeader(t *testing.T, o *original) {
	l := restoreLab(t, o, 3)
	kill := func() { l.pd.KillMember(l.pd.Leader()) }
	_, err := l.run(t, l.config(o, "run"), map[string]func(){"prepare": kill})
	require.NoError(t, err)
	l.verify(t, o)
}

// balanceLeader drops the limit that keeps PD's schedulers quiet: they move leaders as soon as they run.
func balanceLeader(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	_, err := l.run(t, l.config(o, "run"), map[string]func(){"recover": func() {
		require.NoError(t, l.oracle.DropTTLConfig(within(t), []string{"schedule.leader-schedule-limit"}))
	}})
	require.NoError(t, err)
	l.verify(t, o)
}

// newerRun lets a second run begin while the first one waits before its prepare.
func newerRun(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	second := make(chan error, 1)
	first := map[string]func(){"prepare": func() {
		_, err := l.run(t, l.config(o, "second"), nil)
		second <- err
	}}
	cfg := l.config(o, "first")
	_, err := l.run(t, cfg, first)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "keep leaders of store")
	require.NoError(t, <-second)
	require.NotEmpty(t, l.pd.TTLConfigs(), "the first one leaves the second one's settings alone")
	require.NotContains(t, l.pd.ServiceSafePoints(), "tisnap-first")
	require.Contains(t, l.pd.ServiceSafePoints(), "tisnap-second")
	require.Greater(t, l.pd.NextID(), uint64(5000), "the alloc id is never lowered")
	l.verify(t, o)
}

// refusals end before anything is flashed back: the original's later rows are still there.
func refusals(t *testing.T, o *original) {
	cases := []struct {
		name   string
		change func(t *testing.T, l *lab, cfg *resolve.Config) map[string]func()
		kind   failure.Kind
		text   string
	}{
		{"backup ts 0", func(_ *testing.T, _ *lab, cfg *resolve.Config) map[string]func() {
			cfg.BackupTS = 0
			return nil
		}, failure.Corrupt, "backup ts is 0"},
		{"backup ts of tomorrow", func(_ *testing.T, _ *lab, cfg *resolve.Config) map[string]func() {
			cfg.BackupTS = cluster.MakeTS(time.Now().Add(24*time.Hour), 0)
			return nil
		}, failure.Corrupt, "not above the backup ts"},
		{"GC has passed", func(_ *testing.T, l *lab, cfg *resolve.Config) map[string]func() {
			return map[string]func(){"timestamps": func() { l.pd.SetGCSafePoint(uint64(cfg.BackupTS) + 1) }}
		}, failure.Corrupt, "GC safe point"},
		{"store missing", func(_ *testing.T, _ *lab, cfg *resolve.Config) map[string]func() {
			cfg.Stores, cfg.Stall = append(cfg.Stores, 999), time.Second
			return nil
		}, failure.Limited, "store 999 is missing"},
		{"store too many", func(_ *testing.T, _ *lab, cfg *resolve.Config) map[string]func() {
			cfg.Stores = cfg.Stores[:2]
			return nil
		}, failure.Unready, "is not in the backup"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := restoreLab(t, o, 1)
			cfg := l.config(o, "run")
			before := c.change(t, l, &cfg)
			_, err := l.run(t, cfg, before)
			require.Equal(t, c.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
			for _, s := range l.stores {
				require.NotContains(t, s.MutatingCalls(), "KvFlashbackToVersion")
				require.NotContains(t, s.MutatingCalls(), "KvPrepareFlashbackToVersion")
			}
			require.Empty(t, l.pd.TTLConfigs(), "the undo thawed")
		})
	}
}

func TestResolver_StalledStore_EndsWithTheRegionsNamed(t *testing.T) {
	t.Parallel()
	o := makeOriginal(t)
	l := restoreLab(t, o, 1)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Code: "server_is_busy", Times: -1}))
	cfg := l.config(o, "run")
	cfg.Stall = time.Second
	_, err := l.run(t, cfg, nil)
	require.Equal(t, failure.Limited, failure.KindOf(err))
	require.ErrorContains(t, err, "nothing changed for 1s: region ")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}
