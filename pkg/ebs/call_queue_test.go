package ebs

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// bucket is EC2's side: so many calls at once, then so many a second, some of which neighbours take.
type bucket struct {
	mu                 sync.Mutex
	tokens, size, free float64 // free is the refill that neighbours leave
	at                 time.Time
	granted, throttled int
}

func newBucket(size, free float64) *bucket {
	return &bucket{tokens: size, size: size, free: free, at: time.Now()}
}

func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(b.size, b.tokens+now.Sub(b.at).Seconds()*b.free)
	b.at = now
	if b.tokens < 1 {
		b.throttled++
		return false
	}
	b.tokens--
	b.granted++
	return true
}

// drive sends so many calls through the queue, all at once, until each is granted, and returns how long it took.
func drive(t *testing.T, q *callQueue, b *bucket, calls int) time.Duration {
	t.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			place := q.place(usual)
			for {
				if q.turn(t.Context(), place) != nil {
					return
				}
				ok := b.take()
				q.answered(!ok)
				if ok {
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func TestLane_AloneInTheAccount_NearTheBucketsFloorAndNeverThrottled(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{100, 150, 300, 1000} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(100, 5)
			took := drive(t, newCallQueue(realClock{}, mutatingBurst, mutatingRate), b, calls)
			floor := time.Duration(float64(calls-100) / 5 * float64(time.Second))
			require.LessOrEqual(t, took, max(floor*11/10, time.Second/4), "%d calls", calls)
			require.GreaterOrEqual(t, took, floor)
			require.Equal(t, calls, b.granted)
			require.Zero(t, b.throttled)
		})
	}
}

func TestLane_NoisyNeighbour_TakesWhatIsLeftWithoutHammering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(100, 1) // 4 of 5 a second go to others
		took := drive(t, newCallQueue(realClock{}, mutatingBurst, mutatingRate), b, 150)
		require.LessOrEqual(t, took, 60*time.Second, "50 calls at 1 a second")
		require.Less(t, b.throttled, 50, "refused calls for 150 that were granted")
	})
}

func TestLane_OneThrottleAlone_KeepsItsRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newCallQueue(realClock{}, mutatingBurst, mutatingRate)
		for range 3 {
			for range 4 { // that were under way at the same time
				q.answered(true)
			}
			require.InDelta(t, mutatingRate, q.rate, 0.01)
			require.Less(t, q.tokens, 1.0, "ec2 has none")
			require.NoError(t, realClock{}.Sleep(t.Context(), 10*time.Second))
		}
	})
}

func TestLane_NeighbourGone_ComesBackToFullRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newCallQueue(realClock{}, mutatingBurst, mutatingRate)
		drive(t, q, newBucket(1, 1), 20)
		require.Less(t, q.rate, 3.0)
		drive(t, q, newBucket(1000, 5), 100)
		require.InDelta(t, mutatingRate, q.rate, 0.01)
	})
}

func TestLane_Throttled_KeepsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newCallQueue(realClock{}, 1, 1)
		first, second := q.place(usual), q.place(usual)
		require.NoError(t, q.turn(t.Context(), first))
		q.answered(true)
		order := make(chan string, 2)
		go func() {
			if q.turn(t.Context(), second) == nil {
				order <- "second"
			}
		}()
		synctest.Wait()
		require.NoError(t, q.turn(t.Context(), first))
		order <- "first"
		require.Equal(t, "first", <-order)
		require.Equal(t, "second", <-order)
	})
}

func TestLane_Urgent_PrecedesThoseThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newCallQueue(realClock{}, 1, 1)
		require.NoError(t, q.turn(t.Context(), q.place(usual)))
		order := make(chan priority, 3)
		for _, p := range []priority{background, usual, urgent} {
			go func() {
				if q.turn(t.Context(), q.place(p)) == nil {
					order <- p
				}
			}()
			synctest.Wait()
		}
		require.Equal(t, urgent, <-order)
		require.Equal(t, usual, <-order)
		require.Equal(t, background, <-order)
	})
}

func TestLane_DeadlineTooShortForItsPlace_FailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newCallQueue(realClock{}, 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range 11 { // the first at once, ten more in ten seconds
			go func() { _ = q.turn(ctx, q.place(usual)) }()
		}
		synctest.Wait()
		start := time.Now()
		require.ErrorIs(t, q.turn(ctx, q.place(usual)), context.DeadlineExceeded)
		require.Zero(t, time.Since(start))
		cancel()
		synctest.Wait()
		require.Empty(t, q.waiting, "places that no call holds")
	})
}

func TestLane_FirstIsCancelled_NextGetsItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newCallQueue(realClock{}, 1, 1)
		require.NoError(t, q.turn(t.Context(), q.place(usual)))
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- q.turn(ctx, q.place(usual)) }()
		synctest.Wait()
		next := make(chan error, 1)
		go func() { next <- q.turn(t.Context(), q.place(usual)) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		require.NoError(t, <-next)
	})
}

func TestGate_UrgentUnderWay_BackgroundWaitsAndOthersDoNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		end := g.begin(urgent)
		start := time.Now()
		require.NoError(t, g.yield(t.Context(), usual, realClock{}))
		require.NoError(t, g.yield(t.Context(), urgent, realClock{}))
		require.Zero(t, time.Since(start))
		time.AfterFunc(time.Minute, end)
		require.NoError(t, g.yield(t.Context(), background, realClock{}))
		require.InDelta(t, time.Minute, time.Since(start), float64(yieldPoll))

		defer g.begin(urgent)() // never ends
		start = time.Now()
		require.NoError(t, g.yield(t.Context(), background, realClock{}))
		require.InDelta(t, maxYield, time.Since(start), float64(yieldPoll))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.yield(ctx, background, realClock{}), context.DeadlineExceeded)
	})
}
