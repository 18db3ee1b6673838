package objstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func bucketAt(t *testing.T, server *objstoretest.Server, prefix string) objstore.Bucket {
	t.Helper()
	b, ok := objstore.BucketOf(open(t, "s3://"+bucket+"/"+prefix, objstore.Config{Region: "us-west-2", Endpoint: server.URL()}))
	require.True(t, ok)
	return b
}

func TestBucket_Clock_IsTheServers(t *testing.T) {
	t.Parallel()
	server := newServer(t, objstoretest.Config{})
	server.Skew(time.Hour)
	at, err := bucketAt(t, server, "p").Clock(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), at, 30*time.Second)
}

// A refusal is not taken for a bucket without the setting, and names the permission.
func TestBucket_Refused_IsDenied(t *testing.T) {
	t.Parallel()
	plan := new(fault.Plan)
	for _, call := range []string{"GetBucketVersioning", "GetBucketLifecycleConfiguration", "GetObjectLockConfiguration"} {
		require.NoError(t, plan.Add(fault.Rule{Point: "s3." + call, Code: "AccessDenied", Times: -1}))
	}
	b := bucketAt(t, newServer(t, objstoretest.Config{Faults: plan}), "p")
	_, versioning := b.Versioning(t.Context())
	_, lifecycle := b.Lifecycle(t.Context())
	_, lock := b.ObjectLock(t.Context())
	for permission, err := range map[string]error{
		"s3:GetBucketVersioning": versioning, "s3:GetLifecycleConfiguration": lifecycle, "s3:GetBucketObjectLockConfiguration": lock,
	} {
		require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
		require.Contains(t, failure.HintOf(err), "grant "+permission+" on arn:aws:s3:::"+bucket+" to")
	}
}

// The permission to read a version is another one.
func TestBucket_GetIsRefused_NamesThePermission(t *testing.T) {
	t.Parallel()
	plan := new(fault.Plan)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.GetObject", Code: "AccessDenied", Times: -1}))
	b := bucketAt(t, newServer(t, objstoretest.Config{Faults: plan}), "p")
	_, _, err := b.Get(t.Context(), "a", "null")
	require.Contains(t, failure.HintOf(err), "grant s3:GetObjectVersion on ")
	into := make([]byte, 1)
	require.Contains(t, failure.HintOf(b.GetRange(t.Context(), "a", "null", 0, into)), "grant s3:GetObjectVersion on ")
	require.Contains(t, failure.HintOf(b.GetRange(t.Context(), "a", "", 0, into)), "grant s3:GetObject on ")
}

// Compliance stays compliance, and is only made longer.
func TestBucket_Retain_ComplianceStays(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	server := newServer(t, objstoretest.Config{})
	b := bucketAt(t, server, "p")
	s := open(t, "s3://"+bucket+"/p", objstore.Config{Region: "us-west-2", Endpoint: server.URL()})
	_, err := s.Create(t.Context(), "a", []byte("x"))
	require.NoError(t, err)
	until := time.Now().Add(time.Hour).UTC()
	_, err = b.Retain(t.Context(), "a", "", objstore.Retention{Mode: objstore.RetainCompliance, Until: until})
	require.Equal(t, failure.Usage, failure.KindOf(err), "the bucket has no Object Lock: %v", err)
	server.LockBucket(bucket)
	latest := until
	for _, row := range []struct {
		mode, want string
		more       time.Duration
	}{
		{objstore.RetainGovernance, objstore.RetainGovernance, time.Hour},
		{objstore.RetainCompliance, objstore.RetainCompliance, time.Minute}, // stricter, and not shorter
		{objstore.RetainGovernance, objstore.RetainCompliance, 2 * time.Hour},
	} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			got, err := b.Retain(t.Context(), "a", "", objstore.Retention{Mode: row.mode, Until: until.Add(row.more)})
			require.NoError(t, err)
			require.Equal(t, row.want, got.Mode)
			require.False(t, got.Until.Before(latest), "%s before %s", got.Until, latest)
			require.False(t, got.Until.Before(until.Add(row.more)))
			latest = got.Until
		})
	}
}

func TestBucketOf_FolderHasNone(t *testing.T) {
	t.Parallel()
	_, ok := objstore.BucketOf(open(t, "file://"+t.TempDir(), objstore.Config{}))
	require.False(t, ok)
}
