package pd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

// The contract suite: functions of a client to a PD that has stores, regions with leaders and running
// schedulers, and is not in production. A real PD passes them as well as the stand-in.
func contractSuite() map[string]func(*testing.T, *pd.Client) {
	return map[string]func(*testing.T, *pd.Client){
		"Members":    contractMembers,
		"Clock":      contractClock,
		"Schedulers": contractSchedulers,
		"TTLConfig":  contractTTLConfig,
		"ResolvedTS": contractResolvedTS,
		"GC":         contractGC,
		"Recovery":   contractRecovery,
		"Notes":      contractNotes,
	}
}

func TestContract_StandIn_Holds(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"7.5.0", "8.1.0", "8.5.0"} {
		for name, check := range contractSuite() {
			t.Run(version+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := running(t, pdtest.Config{Version: version}, 5)
				check(t, open(t, s.URLs()...))
			})
		}
	}
}

func contractMembers(t *testing.T, c *pd.Client) {
	ctx := t.Context()
	id, err := c.ClusterID(ctx)
	require.NoError(t, err)
	require.NotZero(t, id)
	version, err := c.Version(ctx)
	require.NoError(t, err)
	require.Regexp(t, `^\d+\.\d+\.\d+`, version)

	stores, err := c.Stores(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, stores)
	for _, s := range stores {
		require.NotZero(t, s.ID)
		require.NotEmpty(t, s.Address)
		require.Contains(t, []pd.StoreState{pd.StoreUp, pd.StoreDown, pd.StoreDisconnected, pd.StoreOffline, pd.StoreTombstone}, s.State)
	}
	regions, err := c.Regions(ctx, cluster.KeyRange{})
	require.NoError(t, err)
	ranges := make([]cluster.KeyRange, 0, len(regions))
	for _, r := range regions {
		require.NotEmpty(t, r.Peers)
		ranges = append(ranges, r.Keys)
	}
	require.NoError(t, cluster.Tile(ranges, 10))

	_, err = c.ResolvedTS(ctx)
	require.NoError(t, err)
}

func contractNotes(t *testing.T, c *pd.Client) {
	ctx := t.Context()
	body, revision, err := c.Note(ctx, "contract")
	require.NoError(t, err)
	require.Nil(t, body)
	require.Zero(t, revision)
	require.NoError(t, c.PutNote(ctx, "contract", []byte("one"), 0))
	require.Equal(t, failure.Conflict, failure.KindOf(c.PutNote(ctx, "contract", []byte("other"), 0)))
	body, revision, err = c.Note(ctx, "contract")
	require.NoError(t, err)
	require.Equal(t, "one", string(body))
	require.NoError(t, c.PutNote(ctx, "contract", []byte("two"), revision))
	require.Equal(t, failure.Conflict, failure.KindOf(c.PutNote(ctx, "contract", nil, revision)), "it was changed since")
	body, revision, err = c.Note(ctx, "contract")
	require.NoError(t, err)
	require.Equal(t, "two", string(body))
	require.NoError(t, c.PutNote(ctx, "contract", nil, revision))
	body, _, err = c.Note(ctx, "contract")
	require.NoError(t, err)
	require.Nil(t, body)
	require.NoError(t, c.PutNote(ctx, "contract", []byte("three"), 0), "a key that was deleted is as one that never was")
	_, revision, err = c.Note(ctx, "contract")
	require.NoError(t, err)
	require.NoError(t, c.PutNote(ctx, "contract", nil, revision))
}

func contractClock(t *testing.T, c *pd.Client) {
	ctx := t.Context()
	first, err := c.Now(ctx)
	require.NoError(t, err)
	second, err := c.Now(ctx)
	require.NoError(t, err)
	require.Greater(t, second, first)

	ahead := cluster.MakeTS(second.Time().Add(48*time.Hour), 7)
	require.NoError(t, c.RaiseTS(ctx, ahead))
	raised, err := c.Now(ctx)
	require.NoError(t, err)
	require.Greater(t, raised, ahead)
	// A smaller one changes nothing.
	require.NoError(t, c.RaiseTS(ctx, first))
	later, err := c.Now(ctx)
	require.NoError(t, err)
	require.Greater(t, later, raised)

	err = c.RaiseTS(ctx, cluster.MakeTS(time.Date(2047, 1, 1, 0, 0, 0, 0, time.UTC), 0))
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
}

func contractSchedulers(t *testing.T, c *pd.Client) {
	ctx := t.Context()
	list, err := c.Schedulers(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	name := list[0].Name
	pausedUntil := func() (bool, time.Time) {
		list, err := c.Schedulers(ctx)
		require.NoError(t, err)
		for _, s := range list {
			if s.Name == name {
				return s.Paused, s.ResumeAt
			}
		}
		return false, time.Time{}
	}
	before := time.Now()
	require.NoError(t, c.PauseScheduler(ctx, name, 5*time.Minute))
	paused, until := pausedUntil()
	require.True(t, paused)
	requireIn5Minutes(t, until, before)

	require.NoError(t, c.ResumeScheduler(ctx, name))
	require.NoError(t, c.ResumeScheduler(ctx, name))
	paused, until = pausedUntil()
	require.False(t, paused)
	require.Zero(t, until)

	err = c.PauseScheduler(ctx, "no-such-scheduler", time.Minute)
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
	require.True(t, failure.Is(c.PauseScheduler(ctx, "all", time.Minute), failure.Usage))
	require.True(t, failure.Is(c.PauseScheduler(ctx, name, 0), failure.Usage))
}

// requireIn5Minutes checks an end that was set between begin and now; PD rounds it to seconds.
func requireIn5Minutes(t *testing.T, end, begin time.Time) {
	t.Helper()
	require.WithinRange(t, end, begin.Add(5*time.Minute-2*time.Second), time.Now().Add(5*time.Minute+2*time.Second))
}

func contractTTLConfig(t *testing.T, c *pd.Client) {
	ctx := t.Context()
	items := map[string]any{"schedule.leader-schedule-limit": 1, "schedule.enable-location-replacement": "false"}
	require.NoError(t, c.SetTTLConfig(ctx, items, 5*time.Minute))
	got, err := c.TTLConfig(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"schedule.leader-schedule-limit": "1", "schedule.enable-location-replacement": "false"}, got)

	require.NoError(t, c.DropTTLConfig(ctx, []string{"schedule.leader-schedule-limit"}))
	require.NoError(t, c.DropTTLConfig(ctx, []string{"schedule.leader-schedule-limit", "schedule.enable-location-replacement"}))
	require.NoError(t, c.DropTTLConfig(ctx, nil))
	got, err = c.TTLConfig(ctx)
	require.NoError(t, err)
	require.Empty(t, got)

	err = c.SetTTLConfig(ctx, map[string]any{"schedule.no-such-item": 1}, time.Minute)
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
}

func contractGC(t *testing.T, c *pd.Client) {
	ctx := t.Context()
	const service = "contract-suite"
	now, err := c.Now(ctx)
	require.NoError(t, err)
	find := func() *pd.SafePoint {
		points, _, err := c.SafePoints(ctx)
		require.NoError(t, err)
		for _, p := range points {
			if p.Service == service {
				return &p
			}
		}
		return nil
	}
	before := time.Now()
	lowest, err := c.HoldGC(ctx, service, now, 5*time.Minute)
	require.NoError(t, err)
	require.LessOrEqual(t, lowest, now)
	point := find()
	require.NotNil(t, point)
	require.Equal(t, now, point.TS)
	requireIn5Minutes(t, point.ExpiredAt, before)

	require.NoError(t, c.ReleaseGC(ctx, service))
	require.NoError(t, c.ReleaseGC(ctx, service))
	require.Nil(t, find())
}

func contractRecovery(t *testing.T, c *pd.Client) {
	ctx := t.Context()
	err := c.RaiseAllocID(ctx, 5)
	require.True(t, failure.Is(err, failure.Unready), "%v", err)
	for range 2 {
		require.NoError(t, c.MarkRecovering(ctx))
		requireMarked(ctx, t, c, true)
	}
	require.NoError(t, c.RaiseAllocID(ctx, 1_000_000))
	// It never lowers: PD would.
	require.NoError(t, c.RaiseAllocID(ctx, 10))
	require.NoError(t, c.RaiseAllocID(ctx, 1_000_000))
	for range 2 {
		require.NoError(t, c.UnmarkRecovering(ctx))
		requireMarked(ctx, t, c, false)
	}
}

func requireMarked(ctx context.Context, t *testing.T, c *pd.Client, want bool) {
	t.Helper()
	marked, err := c.Recovering(ctx)
	require.NoError(t, err)
	require.Equal(t, want, marked)
}

// A store that leads a region has a resolved ts, or 0 before it has reported; the minimum is over these.
func contractResolvedTS(t *testing.T, c *pd.Client) {
	got, err := c.ResolvedTS(t.Context())
	require.NoError(t, err)
	require.True(t, got.RealTime)
	require.Positive(t, got.Interval)
	require.NotEmpty(t, got.Stores)
	stores, err := c.Stores(t.Context())
	require.NoError(t, err)
	known := map[cluster.StoreID]bool{}
	for _, s := range stores {
		known[s.ID] = true
	}
	for id, ts := range got.Stores {
		require.True(t, known[id], "store %s", id)
		require.GreaterOrEqual(t, ts, got.TS, "store %s", id)
	}
}
