package objstoretest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

const (
	testTimeout = 10 * time.Second
	tick        = 5 * time.Millisecond
)

func TestMemory_Faults_StrikeBeforeAndAfter(t *testing.T) {
	t.Parallel()
	plan := new(fault.Plan)
	store := objstoretest.NewMemory(plan)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.PutObject", Code: "SlowDown"}))
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.PutObject", Position: fault.After}))
	_, err := store.Create(t.Context(), "a", []byte("one"))
	require.Equal(t, failure.Limited, failure.KindOf(err))
	require.Empty(t, store.MutatingCalls())
	_, err = store.Create(t.Context(), "a", []byte("one"))
	require.Equal(t, failure.Unknown, failure.KindOf(err))
	body, _, err := store.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "one", string(body), "done, though the caller got an error")
	require.Equal(t, []string{"PutObject a"}, store.MutatingCalls())
	require.Empty(t, plan.Unreached())
}

func TestMemory_Stall_EndsWithTheContext(t *testing.T) {
	t.Parallel()
	plan := new(fault.Plan)
	store := objstoretest.NewMemory(plan)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.DeleteObject", Position: fault.Stall}))
	ctx, cancel := context.WithTimeout(t.Context(), tick)
	defer cancel()
	require.ErrorIs(t, store.Delete(ctx, "a"), context.DeadlineExceeded)
	require.Empty(t, store.MutatingCalls())
}
