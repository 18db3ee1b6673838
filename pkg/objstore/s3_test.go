package objstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestS3Create_AnswerLost_IsOurs(t *testing.T) {
	t.Parallel()
	store, server := faulty(t, fault.Rule{Point: "s3.PutObject", Position: fault.After})
	version, err := store.Create(t.Context(), "a", []byte("one"))
	require.NoError(t, err)
	require.Len(t, server.MutatingCalls(), 2, "the SDK tried again and met our own object")
	_, current, err := store.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, current, version)
}

func TestS3Replace_AnswerLost_IsOurs(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.PutObject", Position: fault.After, Nth: 2})
	v, err := store.Create(t.Context(), "a", []byte("one"))
	require.NoError(t, err)
	v, err = store.Replace(t.Context(), "a", []byte("two"), v)
	require.NoError(t, err)
	_, err = store.Replace(t.Context(), "a", []byte("three"), v)
	require.NoError(t, err)
}

// The first attempt is refused for overload, then someone else is faster.
func TestS3Create_RetriedButTaken_IsConflict(t *testing.T) {
	t.Parallel()
	plan := new(fault.Plan)
	server := newServer(t, objstoretest.Config{Faults: plan})
	store := open(t, "s3://"+bucket, objstore.Config{Endpoint: server.URL()})
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.PutObject", Code: "SlowDown", Do: func() {
		plan.Clear()
		_, err := store.Create(context.WithoutCancel(t.Context()), "a", []byte("theirs"))
		require.NoError(t, err)
	}}))
	_, err := store.Create(t.Context(), "a", []byte("ours"))
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
}

func TestS3Create_AnswerLostAndReadFails_MayHaveHappened(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.PutObject", Position: fault.After},
		fault.Rule{Point: "s3.GetObject", Code: "AccessDenied"})
	_, err := store.Create(t.Context(), "a", []byte("one"))
	require.Equal(t, failure.Unknown, failure.KindOf(err))
}

func TestS3_Overloaded_IsTriedAgain(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.PutObject", Code: "SlowDown", Times: 2},
		fault.Rule{Point: "s3.GetObject", Code: "InternalError"},
		fault.Rule{Point: "s3.ListObjectsV2", Position: fault.After})
	_, err := store.Create(t.Context(), "a", []byte("one"))
	require.NoError(t, err)
	_, _, err = store.Get(t.Context(), "a")
	require.NoError(t, err)
	found, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, found, 1)
}

func TestS3Create_ConcurrentWrite_IsTriedAgain(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.PutObject", Code: "ConditionalRequestConflict"})
	_, err := store.Create(t.Context(), "a", []byte("one"))
	require.NoError(t, err)
}

func TestS3_Refused_NamesTheAction(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	store, server := faulty(t, fault.Rule{Point: "s3.*", Code: "AccessDenied", Times: -1})
	_, createErr := store.Create(t.Context(), "a", nil)
	_, replaceErr := store.Replace(t.Context(), "a", nil, "v")
	_, _, getErr := store.Get(t.Context(), "a")
	_, listErr := store.List(t.Context(), "x")
	for action, err := range map[string]error{
		"s3:GetObject on arn:aws:s3:::backups/p/a": getErr, "s3:ListBucket on arn:aws:s3:::backups ": listErr,
		"s3:DeleteObject": store.Delete(t.Context(), "a"), "s3:PutObject": createErr, "s3:PutObject ": replaceErr,
	} {
		t.Run(action, func(t *testing.T) {
			require.Equal(t, failure.Denied, failure.KindOf(err))
			require.Contains(t, failure.HintOf(err), action)
		})
	}
	require.Empty(t, server.MutatingCalls())
}

func TestS3_NoBucket_IsNotFoundWithHint(t *testing.T) {
	t.Parallel()
	server := newServer(t, objstoretest.Config{})
	store := open(t, "s3://other-bucket", objstore.Config{Endpoint: server.URL()})
	_, createErr := store.Create(t.Context(), "a", nil)
	_, replaceErr := store.Replace(t.Context(), "a", nil, "v")
	_, listErr := store.List(t.Context(), "")
	for _, err := range []error{createErr, replaceErr, listErr, store.Delete(t.Context(), "a")} {
		require.Equal(t, failure.NotFound, failure.KindOf(err))
		require.Contains(t, failure.HintOf(err), "other-bucket")
	}
}

func TestS3Get_BodyBreaksAgainAndAgain_IsReadAgain(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.GetObject", Code: "CorruptBody", Times: 7})
	_, err := store.Create(t.Context(), "a", []byte("content"))
	require.NoError(t, err)
	body, _, err := store.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "content", string(body))
}

func TestS3Get_Damaged_IsCorrupt(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.GetObject", Code: "CorruptBody", Times: -1})
	_, err := store.Create(t.Context(), "a", []byte("content"))
	require.NoError(t, err)
	_, _, err = store.Get(t.Context(), "a")
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
}

func TestS3_NoAnswer_IsTriedAgain(t *testing.T) {
	t.Parallel()
	plan := new(fault.Plan)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.PutObject", Position: fault.Stall}))
	server := newServer(t, objstoretest.Config{Faults: plan})
	store := open(t, "s3://"+bucket, objstore.Config{Endpoint: server.URL(), AttemptTimeout: time.Second})
	_, err := store.Create(t.Context(), "a", []byte("one"))
	require.NoError(t, err)
	require.Empty(t, plan.Unreached())
}

func TestS3_DeadlinePasses_IsLimited(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.*", Position: fault.Stall, Times: -1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // long enough to reach the server
	defer cancel()
	_, err := store.Create(ctx, "a", []byte("one"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, failure.Limited, failure.KindOf(err))
}

func TestS3_ConnectionRefused_IsUnknown(t *testing.T) {
	t.Parallel()
	server := objstoretest.New(objstoretest.Config{})
	require.NoError(t, server.Start(t.Context()))
	endpoint := server.URL()
	require.NoError(t, server.Close())
	store := open(t, "s3://"+bucket, objstore.Config{Endpoint: endpoint})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := store.List(ctx, "")
	require.Equal(t, failure.Unknown, failure.KindOf(err))
	require.ErrorContains(t, err, "connection refused")
}

func TestS3List_ManyPages_AreFollowed(t *testing.T) {
	t.Parallel()
	server := newServer(t, objstoretest.Config{Page: 1})
	store := open(t, "s3://"+bucket, objstore.Config{Endpoint: server.URL()})
	for _, key := range []string{"a", "b", "c"} {
		_, err := store.Create(t.Context(), key, nil)
		require.NoError(t, err)
	}
	found, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, found, 3)
}

// A listing that begins in the middle asks for no page before it: a storage may hold the journals of years.
func TestS3_ListAfter_AsksForNoEarlierPage(t *testing.T) {
	t.Parallel()
	plan := &fault.Plan{}
	server := newServer(t, objstoretest.Config{Page: 3, Faults: plan})
	store := open(t, "s3://backups/p", objstore.Config{Endpoint: server.URL()})
	for i := range 9 {
		_, err := store.Create(t.Context(), fmt.Sprintf("runs/%d", i), nil)
		require.NoError(t, err)
	}
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.ListObjectsV2", Nth: 2, Code: "AccessDenied"}))
	found, err := store.ListAfter(t.Context(), "runs/", "runs/6")
	require.NoError(t, err, "it asked for a second page")
	require.Len(t, found, 2)
	_, err = store.List(t.Context(), "runs/")
	require.Equal(t, failure.Denied, failure.KindOf(err), "the second request of all")
}
