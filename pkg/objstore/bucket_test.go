package objstore_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// putSetting sets a subresource of the bucket as S3's API takes it.
func putSetting(t *testing.T, server *objstoretest.Server, name, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL()+"/"+bucket+"?"+name, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "signed")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, string(answer))
	http.DefaultClient.CloseIdleConnections()
}

func bucketAt(t *testing.T, server *objstoretest.Server, prefix string) objstore.Bucket {
	t.Helper()
	b, ok := objstore.BucketOf(open(t, "s3://"+bucket+"/"+prefix, objstore.Config{Region: "us-west-2", Endpoint: server.URL()}))
	require.True(t, ok)
	return b
}

func TestBucket_NothingSet(t *testing.T) {
	t.Parallel()
	b := bucketAt(t, newServer(t, objstoretest.Config{}), "p")
	versioning, err := b.Versioning(t.Context())
	require.NoError(t, err)
	require.Empty(t, versioning)
	rules, err := b.Lifecycle(t.Context())
	require.NoError(t, err)
	require.Empty(t, rules)
	lock, err := b.ObjectLock(t.Context())
	require.NoError(t, err)
	require.Zero(t, lock)
}

func TestBucket_VersioningLockAndClock(t *testing.T) {
	t.Parallel()
	server := newServer(t, objstoretest.Config{})
	b := bucketAt(t, server, "p")
	putSetting(t, server, "versioning", `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`)
	versioning, err := b.Versioning(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Enabled", versioning)
	putSetting(t, server, "object-lock", `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>
		<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Years>2</Years></DefaultRetention></Rule></ObjectLockConfiguration>`)
	lock, err := b.ObjectLock(t.Context())
	require.NoError(t, err)
	require.Equal(t, objstore.ObjectLock{Enabled: true, Mode: "COMPLIANCE", Days: 730}, lock)
	server.Skew(time.Hour)
	at, err := b.Clock(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), at, 30*time.Second)
}

// Only rules that can reach the store's objects, which have no tags, are listed.
func TestBucket_Lifecycle(t *testing.T) {
	t.Parallel()
	server := newServer(t, objstoretest.Config{})
	rule := func(id, status, filter, action string) string {
		return "<Rule><ID>" + id + "</ID><Status>" + status + "</Status>" + filter + action + "</Rule>"
	}
	const expires, tag = "<Expiration><Days>30</Days></Expiration>", "<Tag><Key>k</Key><Value>v</Value></Tag>"
	prefix := func(p string) string { return "<Filter><Prefix>" + p + "</Prefix></Filter>" }
	putSetting(t, server, "lifecycle", "<LifecycleConfiguration>"+
		rule("whole bucket", "Enabled", prefix(""), expires)+
		rule("old form", "Enabled", "<Prefix>a/</Prefix>", expires)+
		rule("below", "Enabled", prefix("a/b/manifests/"), "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>")+
		rule("other classes", "Enabled", prefix(""), "<Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>")+
		rule("versions", "Enabled", prefix(""), "<NoncurrentVersionExpiration><NoncurrentDays>9</NoncurrentDays></NoncurrentVersionExpiration>")+
		rule("markers", "Enabled", prefix(""), "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>")+
		rule("disabled", "Disabled", prefix(""), expires)+
		rule("elsewhere", "Enabled", prefix("a/bc/"), expires)+
		rule("tagged", "Enabled", "<Filter>"+tag+"</Filter>", expires)+
		rule("prefix and tag", "Enabled", "<Filter><And><Prefix>a/</Prefix>"+tag+"</And></Filter>", expires)+
		"</LifecycleConfiguration>")
	rules, err := bucketAt(t, server, "a/b").Lifecycle(t.Context())
	require.NoError(t, err)
	require.Equal(t, []objstore.Rule{
		{ID: "whole bucket", Expires: true}, {ID: "old form", Expires: true}, {ID: "below", Archive: "GLACIER"},
		{ID: "other classes"}, {ID: "versions", NoncurrentExpires: true}, {ID: "markers"},
	}, rules)
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

func TestBucketOf_FolderHasNone(t *testing.T) {
	t.Parallel()
	_, ok := objstore.BucketOf(open(t, "file://"+t.TempDir(), objstore.Config{}))
	require.False(t, ok)
}
