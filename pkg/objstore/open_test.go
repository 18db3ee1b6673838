package objstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

func TestOpen_GoodURL_IsShownAsItIs(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for given, want := range map[string]string{
		"s3://bucket":                "s3://bucket",
		"s3://bucket/":               "s3://bucket",
		"s3://bucket/a/b/":           "s3://bucket/a/b",
		"file:///tmp/x/":             "file:///tmp/x",
		"file:///tmp/with%20a%20gap": "file:///tmp/with%20a%20gap",
		"file://localhost/tmp/x":     "file:///tmp/x",
	} {
		t.Run(given, func(t *testing.T) {
			require.Equal(t, want, open(t, given, objstore.Config{Region: "us-west-2"}).URL(), given)
		})
	}
}

func TestOpen_BadURL_IsUsageWithTheForms(t *testing.T) {
	t.Parallel()
	for _, given := range []string{
		"", "bucket/prefix", "/tmp/x", "file://tmp/x", "file:tmp/x", "gs://bucket", "s3://", "s3:///prefix", "s3://b",
		"s3://bucket/a/../b", "s3://bucket/a//b", "S4://bucket", "://", "s3://bucket/%zz",
	} {
		_, err := objstore.Open(t.Context(), given, objstore.Config{Region: "us-west-2"})
		require.Equal(t, failure.Usage, failure.KindOf(err), given)
		require.Contains(t, failure.HintOf(err), "s3://BUCKET[/PREFIX] or file:///ABSOLUTE/FOLDER", given)
	}
}

func TestOpen_SecretInURL_IsRefusedAndNotRepeated(t *testing.T) {
	t.Parallel()
	for _, given := range []string{
		"s3://AKIAHIDDEN:hidden@bucket/prefix",
		"s3://hidden@bucket/prefix",
		"s3://bucket/prefix?access-key=AKIAHIDDEN&secret-access-key=hidden",
		"s3://bucket/prefix#hidden",
		"s3://AKIAHIDDEN:hid/den@bucket/prefix",
		"s3://AKIAHIDDEN:hidden%zz@bucket",
	} {
		_, err := objstore.Open(t.Context(), given, objstore.Config{Region: "us-west-2"})
		require.Equal(t, failure.Usage, failure.KindOf(err), given)
		require.NotContains(t, err.Error()+failure.HintOf(err), "hid", given)
		require.NotContains(t, err.Error()+failure.HintOf(err), "AKIA", given)
	}
}

func TestOpen_NoRegion_IsUsageWithHint(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	_, err := objstore.Open(t.Context(), "s3://bucket", objstore.Config{})
	require.Equal(t, failure.Usage, failure.KindOf(err))
	require.Contains(t, failure.HintOf(err), "--region")
}

func TestOpen_UnknownProfile_IsUsageWithHint(t *testing.T) {
	t.Parallel()
	_, err := objstore.Open(t.Context(), "s3://bucket", objstore.Config{Region: "us-west-2", Profile: "none-such"})
	require.Equal(t, failure.Usage, failure.KindOf(err))
	require.ErrorContains(t, err, "none-such")
	require.Contains(t, failure.HintOf(err), "--profile")
}

// The variables of the SDK's own chain reach the store, and mean path style.
func TestOpen_EndpointInEnvironment_IsUsed(t *testing.T) {
	for _, variable := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Run(variable, func(t *testing.T) {
			server := newServer(t, objstoretest.Config{})
			t.Setenv(variable, server.URL())
			store := open(t, "s3://"+bucket+"/p", objstore.Config{})
			_, err := store.Create(t.Context(), "a", []byte("one"))
			require.NoError(t, err)
			require.Equal(t, []string{"PutObject backups/p/a"}, server.MutatingCalls())
		})
	}
}

func TestOpen_NoCredentials_IsDeniedAtTheFirstCall(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	server := newServer(t, objstoretest.Config{})
	store := open(t, "s3://"+bucket, objstore.Config{Endpoint: server.URL()})
	_, _, err := store.Get(t.Context(), "a")
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "AWS_PROFILE")
}
