package sweep

import (
	"container/heap"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simulated is a store that works on a number of calls at once and lets the others wait in order.
type simulated struct {
	slots []time.Duration // when each is free again
	now   time.Duration
	open  ends
}

// ends is a heap of calls under way, by their end.
type ends []struct{ sent, end time.Duration }

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].end < e[j].end }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(struct{ sent, end time.Duration })) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// send takes the slot that is free first.
func (s *simulated) send(cost time.Duration) {
	first := 0
	for i := range s.slots {
		if s.slots[i] < s.slots[first] {
			first = i
		}
	}
	end := max(s.now, s.slots[first]) + cost
	s.slots[first] = end
	heap.Push(&s.open, struct{ sent, end time.Duration }{s.now, end})
}

// drive sends the calls through a window and returns how long they took.
func drive(w *window, s *simulated, calls int, cost func(i int) time.Duration) time.Duration {
	start, epoch := s.now, time.Unix(0, 0)
	sent, done := 0, 0
	for done < calls {
		for sent < calls && len(s.open) < w.limit() {
			s.send(cost(sent))
			sent++
		}
		c := heap.Pop(&s.open).(struct{ sent, end time.Duration })
		s.now = c.end
		w.answered(epoch.Add(c.sent), epoch.Add(s.now))
		done++
	}
	return s.now - start
}

func TestWindow_StoreWithSlots_KeepsThemBusyAndNotMuchMore(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 4, 16, 80} {
		w, s := newWindow(), &simulated{slots: make([]time.Duration, slots)}
		const calls = 20_000
		took := drive(w, s, calls, func(int) time.Duration { return 5 * time.Millisecond })
		floor := calls * 5 * time.Millisecond / time.Duration(slots)
		require.Less(t, took, floor*11/10, "%d slots", slots)
		require.LessOrEqual(t, w.limit(), 2*slots+2, "%d slots", slots)
	}
}

// Regions of 10,000 changed keys cost a hundred times what empty ones cost: that is not the window's doing.
func TestWindow_RegionsBecomeDear_StaysWide(t *testing.T) {
	t.Parallel()
	w, s := newWindow(), &simulated{slots: make([]time.Duration, 8)}
	drive(w, s, 5_000, func(int) time.Duration { return 4 * time.Millisecond })
	const dear = 2_000
	took := drive(w, s, dear, func(int) time.Duration { return 400 * time.Millisecond })
	require.Less(t, took, 12*dear*400*time.Millisecond/8/10)
}

func TestWindow_CostsDiffer_StaysWide(t *testing.T) {
	t.Parallel()
	w, s := newWindow(), &simulated{slots: make([]time.Duration, 8)}
	var floor time.Duration
	cost := func(i int) time.Duration {
		if i%7 == 0 {
			return 300 * time.Millisecond
		}
		return 5 * time.Millisecond
	}
	for i := range 10_000 {
		floor += cost(i) / 8
	}
	require.Less(t, drive(w, s, 10_000, cost), floor*12/10)
}

func TestWindow_StoreLosesSlots_Shrinks(t *testing.T) {
	t.Parallel()
	w, s := newWindow(), &simulated{slots: make([]time.Duration, 40)}
	drive(w, s, 20_000, func(int) time.Duration { return 5 * time.Millisecond })
	require.GreaterOrEqual(t, w.limit(), 40)
	s.slots = s.slots[:4]
	drive(w, s, 20_000, func(int) time.Duration { return 5 * time.Millisecond })
	require.Less(t, w.limit(), 40)
}

func TestWindow_BusyAnswers_HalveItOnceForCallsOfOneTime(t *testing.T) {
	t.Parallel()
	w := newWindow()
	w.size = 64
	sent := time.Unix(100, 0)
	for i := range 64 {
		w.refused(sent, sent.Add(time.Duration(i+1)*time.Millisecond))
	}
	require.Equal(t, 32, w.limit())
	w.refused(sent.Add(time.Second), sent.Add(2*time.Second))
	require.Equal(t, 16, w.limit())
}

func TestWindow_StoreGone_OneCallAtATimeThenDoubles(t *testing.T) {
	t.Parallel()
	w, s := newWindow(), &simulated{slots: make([]time.Duration, 16)}
	drive(w, s, 5_000, func(int) time.Duration { return 5 * time.Millisecond })
	w.unanswered(time.Unix(0, 0).Add(s.now), time.Unix(0, 0).Add(s.now))
	require.Equal(t, 1, w.limit())
	drive(w, s, 100, func(int) time.Duration { return 5 * time.Millisecond })
	require.Greater(t, w.limit(), 4)
}
