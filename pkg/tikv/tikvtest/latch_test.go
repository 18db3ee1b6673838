package tikvtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLatch_SharedKey_WaitsForRelease(t *testing.T) {
	t.Parallel()
	var l latch
	k := func(s string) [][]byte { return [][]byte{[]byte(s)} }
	releaseA, err := l.acquire(t.Context(), k("a"))
	require.NoError(t, err)
	releaseB, err := l.acquire(t.Context(), k("b"))
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = l.acquire(short, append(k("a"), k("c")...))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	whole := make(chan func(), 1)
	go func() {
		release, err := l.acquire(context.WithoutCancel(t.Context()), nil)
		if err == nil {
			whole <- release
		}
	}()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.waiting) == 1
	}, 30*time.Second, time.Millisecond)
	later := make(chan func(), 1)
	go func() {
		release, err := l.acquire(context.WithoutCancel(t.Context()), k("z"))
		if err == nil {
			later <- release
		}
	}()
	releaseA()
	releaseA() // a second call does nothing
	require.Empty(t, whole)
	releaseB()
	release := <-whole
	require.Never(t, func() bool { return len(later) > 0 }, 20*time.Millisecond, time.Millisecond)
	release()
	(<-later)()
	require.Empty(t, l.held)
	require.False(t, l.exclusive)
}
