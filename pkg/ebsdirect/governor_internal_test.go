package ebsdirect

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// service is AWS as the governor sees it: token buckets of a tenth of a second, and a latency.
type service struct {
	mu      sync.Mutex
	latency time.Duration // on average: it varies by half
	calls   int
	rates   map[cluster.SnapshotID]float64 // "" is the account
	tokens  map[cluster.SnapshotID]float64
	at      time.Time
	done    map[cluster.SnapshotID]int
	refused int
	inside  int
	most    int // that were inside at a time
}

func (s *service) call(id cluster.SnapshotID) scope {
	s.mu.Lock()
	s.calls++
	latency := s.latency/2 + s.latency*time.Duration(s.calls*7%20)/20
	s.mu.Unlock()
	<-time.After(latency / 2)
	slow := s.take(id)
	<-time.After(latency / 2)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	return slow
}

func (s *service) take(id cluster.SnapshotID) scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for key, rate := range s.rates {
		s.tokens[key] = min(rate/10, s.tokens[key]+rate*now.Sub(s.at).Seconds())
	}
	s.at = now
	for key, slow := range map[cluster.SnapshotID]scope{id: snapshot, "": account} {
		if _, ok := s.rates[key]; ok && s.tokens[key] < 1 {
			s.refused++
			return slow
		}
	}
	s.tokens[id]--
	s.tokens[""]--
	s.done[id]++
	return noRate
}

// run makes each snapshot's 128 callers call for d, and returns the answers a second by snapshot.
func run(t *testing.T, s *service, d time.Duration, ids ...cluster.SnapshotID) (rates map[cluster.SnapshotID]float64, g *governor) {
	t.Helper()
	s.at, s.tokens, s.done = time.Now(), map[cluster.SnapshotID]float64{}, map[cluster.SnapshotID]int{}
	g = newGovernor(ebs.RealTime(), Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var callers sync.WaitGroup
	for _, id := range ids {
		for range 128 {
			callers.Go(func() {
				for {
					done, err := g.enter(ctx, reads, id)
					if err != nil {
						return
					}
					s.mu.Lock()
					s.inside++
					s.most = max(s.most, s.inside)
					s.mu.Unlock()
					done(s.call(id))
				}
			})
		}
	}
	callers.Wait()
	rates = map[cluster.SnapshotID]float64{}
	for id, n := range s.done {
		rates[id] = float64(n) / d.Seconds()
	}
	return rates, g
}

func TestGovernor_KnownLimit_ReachedWithoutThrottling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{latency: 20 * time.Millisecond, rates: map[cluster.SnapshotID]float64{"": 1000, "a": 1000}}
		rates, _ := run(t, s, time.Minute, "a")
		require.Greater(t, rates["a"], 950.0)
		require.Zero(t, s.refused)
	})
}

func TestGovernor_LowerLimitOfTheAccount_FoundAndKept(t *testing.T) {
	t.Parallel()
	for _, limit := range []float64{150, 600, 950} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{latency: 20 * time.Millisecond, rates: map[cluster.SnapshotID]float64{"": limit}}
			rates, g := run(t, s, 2*time.Minute, "a", "b")
			got := rates["a"] + rates["b"]
			require.Greater(t, got, 0.95*limit)
			require.Less(t, float64(s.refused), 0.01*got*120)
			require.InDelta(t, rates["a"], rates["b"], 0.2*got, "both get their share")
			require.EqualValues(t, s.refused, g.stats().Throttled)
		})
	}
}

func TestGovernor_OneSnapshotIsThrottled_OthersAreNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{latency: 20 * time.Millisecond, rates: map[cluster.SnapshotID]float64{"a": 100}}
		rates, _ := run(t, s, 3*time.Minute, "a", "b")
		require.Greater(t, rates["a"], 92.0, "with the time in which it is found")
		require.Greater(t, rates["b"], 850.0, "the rest of the account's rate")
		require.Less(t, float64(s.refused), 0.01*float64(s.done["a"]+s.done["b"]))
	})
}

func TestGovernor_InFlight_AsTheLatencyNeeds(t *testing.T) {
	t.Parallel()
	for latency, most := range map[time.Duration]int{5 * time.Millisecond: 64, 100 * time.Millisecond: 200, time.Second: 256} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{latency: latency, rates: map[cluster.SnapshotID]float64{"": 10_000}}
			rates, g := run(t, s, 20*time.Second, "a", "b", "c")
			require.InDelta(t, most, g.inFlight.most, 0.25*float64(most))
			require.LessOrEqual(t, s.most, MaxInFlight)
			if latency < time.Second {
				require.Greater(t, rates["a"]+rates["b"]+rates["c"], 950.0)
			}
		})
	}
}

func TestLimiter_Throttled_HalvesOnceForCallsOfOneRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	l := newLimiter(1000, now)
	require.InDelta(t, 990, l.rate, 0.1)
	l.throttled(now, now.Add(-time.Millisecond))
	l.throttled(now.Add(120*time.Millisecond), now.Add(100*time.Millisecond))
	require.InDelta(t, 495, l.rate, 1)
	l.grow(now.Add(time.Second / 2))
	require.InDelta(t, 495+240, l.rate, 5)
	l.grow(now.Add(time.Second))
	require.InDelta(t, 960, l.rate, 1, "just below what was throttled")
	l.grow(now.Add(11 * time.Second))
	require.InDelta(t, 970, l.rate, 1, "then slowly")
	l.grow(now.Add(time.Hour))
	require.InDelta(t, 990, l.rate, 0.1)
}

func TestLimiter_LimitIsRaised_FoundInAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	l := newLimiter(1000, now)
	for range 4 {
		now = now.Add(time.Second / 4)
		l.throttled(now, now)
	}
	require.Less(t, l.rate, 100.0)
	for range 15 * 60 {
		now = now.Add(time.Second)
		l.reserve(now)
	}
	require.InDelta(t, 990, l.rate, 0.1)
}

func TestEnter_ContextEnds_PlaceIsFree(t *testing.T) {
	t.Parallel()
	g := newGovernor(ebs.RealTime(), Limits{})
	g.inFlight.most = 1
	done, err := g.enter(t.Context(), reads, "a")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.enter(ctx, reads, "a")
	require.ErrorIs(t, err, context.Canceled)
	done(noRate)
	done, err = g.enter(t.Context(), reads, "a")
	require.NoError(t, err)
	done(noRate)
	require.Zero(t, g.inFlight.inside)
}
