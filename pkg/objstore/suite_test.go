package objstore_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest/suite"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// The SDK reads these at every Open; tests that change one run alone.
func TestMain(m *testing.M) {
	if os.Getenv(external) != "" {
		// A server that outlives the tests keeps idle connections; whose credentials count is the caller's.
		goleak.VerifyTestMain(m,
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
		return
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			os.Exit(1)
		}
	}
	// Idle connections of the SDK's clients end when their server closes them.
	goleak.VerifyTestMain(m)
}

const bucket = "backups"

// newServer starts a stand-in that ends with the test.
func newServer(t *testing.T, config objstoretest.Config) *objstoretest.Server {
	t.Helper()
	server := objstoretest.New(config)
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	server.CreateBucket(bucket)
	return server
}

func open(t *testing.T, url string, config objstore.Config) objstore.Store {
	t.Helper()
	store, err := objstore.Open(t.Context(), url, config)
	require.NoError(t, err)
	return store
}

// faulty opens a store on a stand-in with a fault plan.
func faulty(t *testing.T, rules ...fault.Rule) (objstore.Store, *objstoretest.Server) {
	t.Helper()
	plan := new(fault.Plan)
	for _, r := range rules {
		require.NoError(t, plan.Add(r))
	}
	t.Cleanup(func() { require.Empty(t, plan.Unreached()) })
	server := newServer(t, objstoretest.Config{Faults: plan})
	return open(t, "s3://"+bucket+"/p", objstore.Config{Region: "us-west-2", Endpoint: server.URL()}), server
}

func TestContract_S3(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t *testing.T) objstore.Store {
		server := newServer(t, objstoretest.Config{Page: 7})
		return open(t, "s3://"+bucket, objstore.Config{Endpoint: server.URL()})
	})
}

func TestContract_S3BelowAPrefix(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t *testing.T) objstore.Store {
		server := newServer(t, objstoretest.Config{})
		store := open(t, "s3://"+bucket+"/some/prefix/", objstore.Config{Endpoint: server.URL()})
		require.Equal(t, "s3://"+bucket+"/some/prefix", store.URL())
		return store
	})
}

func TestContract_File(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t *testing.T) objstore.Store {
		u := url.URL{Scheme: "file", Path: t.TempDir() + "/new folder"}
		store := open(t, u.String(), objstore.Config{})
		require.Equal(t, u.String(), store.URL())
		return store
	})
}

func TestContract_Memory(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(*testing.T) objstore.Store { return objstoretest.NewMemory(nil) })
}

func TestContract_ConditionalDeletes(t *testing.T) {
	t.Parallel()
	for name, opened := range map[string]suite.New{
		"S3": func(t *testing.T) objstore.Store {
			return open(t, "s3://"+bucket+"/p", objstore.Config{Endpoint: newServer(t, objstoretest.Config{}).URL()})
		},
		"file": func(t *testing.T) objstore.Store {
			u := url.URL{Scheme: "file", Path: t.TempDir()}
			return open(t, u.String(), objstore.Config{})
		},
		"memory": func(*testing.T) objstore.Store { return objstoretest.NewMemory(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.RunConditionalDeletes(t, opened(t))
		})
	}
}

// An S3 that refuses a condition that it does not know deletes all the same.
func TestDeleteVersion_NotImplemented_IsDeletedWithoutIt(t *testing.T) {
	t.Parallel()
	store, _ := faulty(t, fault.Rule{Point: "s3.DeleteObject", Position: fault.Before, Nth: 1, Code: "NotImplemented"})
	v, err := store.Create(t.Context(), "a", []byte("one"))
	require.NoError(t, err)
	require.NoError(t, store.DeleteVersion(t.Context(), "a", v))
	_, _, err = store.Get(t.Context(), "a")
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

// external names the variable for a store in any S3 that is right: s3://bucket, with AWS_ENDPOINT_URL_S3,
// AWS_REGION and credentials in the SDK's variables.
const external = "TISNAP_TEST_S3"

func TestContract_External(t *testing.T) {
	t.Parallel()
	base := os.Getenv(external)
	if base == "" {
		t.Skip(external + " is not set")
	}
	run := strconv.FormatInt(time.Now().UnixNano(), 36) // a bucket may serve many runs
	suite.Run(t, func(t *testing.T) objstore.Store {
		return open(t, base+"/"+run+"/"+url.PathEscape(t.Name()), objstore.Config{})
	})
}

func TestWire_S3(t *testing.T) {
	t.Parallel()
	server := newServer(t, objstoretest.Config{Page: 50})
	suite.RunWire(t, suite.Wire{
		URL: server.URL(), Objects: 220,
		Open: func(t *testing.T, endpoint string) objstore.Store {
			return open(t, "s3://"+bucket+"/"+url.PathEscape(t.Name()), objstore.Config{Endpoint: endpoint})
		},
	})
}

func TestWire_External(t *testing.T) {
	t.Parallel()
	base, server := os.Getenv(external), os.Getenv("AWS_ENDPOINT_URL_S3")
	if base == "" || server == "" {
		t.Skip(external + " or AWS_ENDPOINT_URL_S3 is not set")
	}
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	suite.RunWire(t, suite.Wire{
		URL: server, Objects: 1100, // a page of S3 has 1,000
		Open: func(t *testing.T, endpoint string) objstore.Store {
			return open(t, base+"/wire-"+run+"/"+url.PathEscape(t.Name()), objstore.Config{Endpoint: endpoint})
		},
	})
}

func TestBuckets_S3(t *testing.T) {
	t.Parallel()
	server := newServer(t, objstoretest.Config{})
	suite.RunBuckets(t, suite.Buckets{
		URL: server.URL(), Name: newName(), Sign: func(_ *testing.T, r *http.Request, _ []byte) { r.Header.Set("Authorization", "signed") },
		Open: func(t *testing.T, url string) objstore.Store {
			return open(t, url, objstore.Config{Region: "us-west-2", Endpoint: server.URL()})
		},
	})
}

func TestBuckets_External(t *testing.T) {
	t.Parallel()
	server := os.Getenv("AWS_ENDPOINT_URL_S3")
	if os.Getenv(external) == "" || server == "" {
		t.Skip(external + " or AWS_ENDPOINT_URL_S3 is not set")
	}
	suite.RunBuckets(t, suite.Buckets{
		URL: server, Name: newName(), Sign: sign, Lacks: strings.Split(os.Getenv(external+"_LACKS"), ","),
		Open: func(t *testing.T, url string) objstore.Store {
			return open(t, url, objstore.Config{Region: os.Getenv("AWS_REGION")})
		},
	})
}

// newName makes names of buckets, which no other run of the tests on a server has used.
func newName() func(*testing.T) string {
	var n atomic.Int64
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	return func(*testing.T) string { return "tisnap-" + run + "-" + strconv.FormatInt(n.Add(1), 10) }
}

// sign signs a request as the SDK does, with the credentials of its variables.
func sign(t *testing.T, r *http.Request, body []byte) {
	t.Helper()
	digest := sha256.Sum256(body)
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(digest[:]))
	credentials := aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}
	require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), credentials, r, hex.EncodeToString(digest[:]), "s3", os.Getenv("AWS_REGION"), time.Now()))
}
