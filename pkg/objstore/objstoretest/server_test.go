package objstoretest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, config objstoretest.Config) (*objstoretest.Server, *s3.Client) {
	t.Helper()
	server := objstoretest.New(config)
	require.NoError(t, server.Start(t.Context()))
	server.CreateBucket("b")
	transport := new(http.Transport)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
	})
	return server, s3.New(s3.Options{
		Region: "us-west-2", BaseEndpoint: aws.String(server.URL()), UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""), HTTPClient: &http.Client{Transport: transport},
	})
}

// send makes a raw request and returns status and body; status 0 is a broken connection.
func send(t *testing.T, server *objstoretest.Server, method, path, body string, headers map[string]string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 anything")
	r.Close = true
	for key, value := range headers {
		r.Header.Set(key, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { require.NoError(t, response.Body.Close()) }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(answer)
}

// The SDK sends each checksum in a header or, for a stream, behind aws-chunked data; all must arrive.
func TestServer_Checksums_AreCheckedAndGivenBack(t *testing.T) {
	t.Parallel()
	_, client := start(t, objstoretest.Config{})
	for _, algorithm := range types.ChecksumAlgorithm("").Values() {
		if strings.HasPrefix(string(algorithm), "XXHASH") || algorithm == "MD5" || algorithm == "SHA512" {
			continue // newer ones, which the SDK does not compute by itself
		}
		key := aws.String("k-" + string(algorithm))
		_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: aws.String("b"), Key: key, Body: strings.NewReader("content"), ChecksumAlgorithm: algorithm,
		})
		require.NoError(t, err, algorithm)
		out, err := client.GetObject(t.Context(), &s3.GetObjectInput{
			Bucket: aws.String("b"), Key: key, ChecksumMode: types.ChecksumModeEnabled,
		})
		require.NoError(t, err, algorithm)
		body, err := io.ReadAll(out.Body)
		require.NoError(t, err, algorithm)
		require.Equal(t, "content", string(body))
		require.NoError(t, out.Body.Close())
	}
}

func TestServer_ChunkedUpload_IsDecoded(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	server, _ := start(t, objstoretest.Config{})
	headers := func(length string) map[string]string {
		return map[string]string{
			"Content-Encoding": "aws-chunked", "X-Amz-Decoded-Content-Length": length, "X-Amz-Trailer": "x-amz-checksum-crc32",
			"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
		}
	}
	body := func(crc string) string {
		return "5\r\nhello\r\n6;chunk-signature=00\r\n world\r\n0\r\nx-amz-checksum-crc32:" + crc + "\r\n\r\n"
	}
	const crc = "DUoRhQ==" // of "hello world"
	for name, test := range map[string]struct {
		length, body string
		status       int
		code         string
	}{
		"right":          {"11", body(crc), 200, ""},
		"wrong checksum": {"11", body("AAAAAA=="), 400, "BadDigest"},
		"wrong length":   {"12", body(crc), 400, "IncompleteBody"},
		"cut off":        {"11", body(crc)[:12], 400, "IncompleteBody"},
		"no trailer":     {"11", "b\r\nhello world\r\n0\r\n\r\n", 400, "MalformedTrailerError"},
		"garbage":        {"11", "hello world", 400, "IncompleteBody"},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := send(t, server, http.MethodPut, "/b/"+url.PathEscape(name), test.body, headers(test.length))
			require.Equal(t, test.status, status, "%s: %s", name, answer)
			require.Contains(t, answer, test.code, name)
		})
	}
	_, got := send(t, server, http.MethodGet, "/b/right", "", nil)
	require.Equal(t, "hello world", got)
	require.Equal(t, []string{"PutObject b/right"}, server.MutatingCalls())
}

func TestServer_RefusesWhatS3Refuses(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	server, _ := start(t, objstoretest.Config{})
	send(t, server, http.MethodPut, "/b/there", "x", nil)
	for name, test := range map[string]struct {
		method, path string
		headers      map[string]string
		status       int
		code         string
	}{
		"unsigned":             {"GET", "/b/there", map[string]string{"Authorization": ""}, 403, "AccessDenied"},
		"no key":               {"GET", "/b/none", nil, 404, "NoSuchKey"},
		"no bucket":            {"PUT", "/none/x", nil, 404, "NoSuchBucket"},
		"md5":                  {"PUT", "/b/x", map[string]string{"Content-Md5": "AAAA"}, 400, "BadDigest"},
		"payload hash":         {"PUT", "/b/x", map[string]string{"X-Amz-Content-Sha256": strings.Repeat("0", 64)}, 400, "XAmzContentSHA256Mismatch"},
		"exists":               {"PUT", "/b/there", map[string]string{"If-None-Match": "*"}, 412, "PreconditionFailed"},
		"if-none-match etag":   {"PUT", "/b/x", map[string]string{"If-None-Match": `"x"`}, 501, "NotImplemented"},
		"if-match other":       {"PUT", "/b/there", map[string]string{"If-Match": `"x"`}, 412, "PreconditionFailed"},
		"if-match missing":     {"PUT", "/b/x", map[string]string{"If-Match": `"x"`}, 404, "NoSuchKey"},
		"long key":             {"PUT", "/b/" + strings.Repeat("k", 1025), nil, 400, "KeyTooLongError"},
		"multipart":            {"POST", "/b/x?uploads", nil, 501, "NotImplemented"},
		"copy":                 {"PUT", "/b/x", map[string]string{"X-Amz-Copy-Source": "/b/there"}, 501, "NotImplemented"},
		"bucket not empty":     {"DELETE", "/b", nil, 409, "BucketNotEmpty"},
		"max-keys":             {"GET", "/b?list-type=2&max-keys=x", nil, 400, "InvalidArgument"},
		"continuation token":   {"GET", "/b?list-type=2&continuation-token=%25", nil, 400, "InvalidArgument"},
		"delete without a doc": {"POST", "/b?delete", nil, 400, "MalformedXML"},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := send(t, server, test.method, test.path, "", test.headers)
			require.Equal(t, test.status, status, "%s: %s", name, answer)
			require.Contains(t, answer, "<Code>"+test.code+"</Code>", name)
		})
	}
	_, got := send(t, server, http.MethodGet, "/b/there", "", nil)
	require.Equal(t, "x", got)
	status, _ := send(t, server, http.MethodGet, "/b/x", "", nil)
	require.Equal(t, 404, status, "nothing was written")
}

func TestServer_BucketsAndListings_Work(t *testing.T) {
	t.Parallel()
	server, client := start(t, objstoretest.Config{Page: 2})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("new")})
	require.NoError(t, err)
	_, err = client.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("new")})
	require.NoError(t, err)
	_, err = client.GetBucketLocation(t.Context(), &s3.GetBucketLocationInput{Bucket: aws.String("new")})
	require.NoError(t, err)
	buckets, err := client.ListBuckets(t.Context(), &s3.ListBucketsInput{})
	require.NoError(t, err)
	require.Len(t, buckets.Buckets, 2)
	for _, key := range []string{"a/1", "a/2", "b c", "d/1", "e"} {
		_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("new"), Key: aws.String(key)})
		require.NoError(t, err)
	}
	var keys, prefixes []string
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{
		Bucket: aws.String("new"), Delimiter: aws.String("/"), EncodingType: types.EncodingTypeUrl,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, o := range page.Contents {
			keys = append(keys, *o.Key)
		}
		for _, p := range page.CommonPrefixes {
			prefixes = append(prefixes, *p.Prefix)
		}
	}
	require.Equal(t, []string{"b+c", "e"}, keys)
	require.Equal(t, []string{"a/", "d/"}, prefixes)
	v1, err := client.ListObjects(t.Context(), &s3.ListObjectsInput{Bucket: aws.String("new"), Marker: aws.String("a/1")})
	require.NoError(t, err)
	require.True(t, *v1.IsTruncated)
	require.Equal(t, "a/2", *v1.Contents[0].Key)
	_, err = client.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String("new"), Delete: &types.Delete{
		Objects: []types.ObjectIdentifier{{Key: aws.String("a/1")}, {Key: aws.String("a/2")}},
	}})
	require.NoError(t, err)
	for _, key := range []string{"b c", "d/1", "e"} {
		_, err = client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("new"), Key: aws.String(key)})
		require.NoError(t, err)
	}
	_, err = client.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String("new")})
	require.NoError(t, err)
	calls := server.MutatingCalls()
	require.Equal(t, "CreateBucket new", calls[0])
	require.Contains(t, calls, "DeleteObject new/a/2")
	require.Equal(t, "DeleteBucket new", calls[len(calls)-1])
}

func TestServer_RangesAndHead_Work(t *testing.T) {
	t.Parallel()
	server, client := start(t, objstoretest.Config{})
	send(t, server, http.MethodPut, "/b/k", "0123456789", nil)
	status, body := send(t, server, http.MethodGet, "/b/k", "", map[string]string{"Range": "bytes=2-4"})
	require.Equal(t, http.StatusPartialContent, status)
	require.Equal(t, "234", body)
	head, err := client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
	require.NoError(t, err)
	require.EqualValues(t, 10, *head.ContentLength)
	_, err = client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("b"), Key: aws.String("none")})
	require.ErrorContains(t, err, "NotFound")
}

func TestServer_Faults_StrikeBeforeAndAfter(t *testing.T) {
	t.Parallel()
	plan := new(fault.Plan)
	server, _ := start(t, objstoretest.Config{Faults: plan})
	put := func(key string) (int, string) { return send(t, server, http.MethodPut, "/b/"+key, "x", nil) }
	exists := func(key string) bool {
		status, _ := send(t, server, http.MethodGet, "/b/"+key, "", nil)
		return status == http.StatusOK
	}
	for _, r := range []fault.Rule{
		{Point: "s3.PutObject", Position: fault.Before, Code: "SlowDown"},
		{Point: "s3.PutObject", Position: fault.Before, Nth: 1},
		{Point: "s3.PutObject", Position: fault.After, Nth: 1},
	} {
		require.NoError(t, plan.Add(r))
	}
	status, answer := put("a")
	require.Equal(t, 503, status)
	require.Contains(t, answer, "SlowDown")
	status, answer = put("a")
	require.Equal(t, 500, status)
	require.Contains(t, answer, "InternalError")
	require.False(t, exists("a"))
	require.Empty(t, server.MutatingCalls())
	status, _ = put("a")
	require.Zero(t, status, "the answer is lost")
	require.True(t, exists("a"))
	require.Empty(t, plan.Unreached())
}

// A stalled call ends when its client gives up, and at the latest with the server.
func TestServer_Stall_EndsWithTheClientOrTheServer(t *testing.T) {
	t.Parallel()
	plan := new(fault.Plan)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.*", Position: fault.Stall, Times: -1}))
	server, client := start(t, objstoretest.Config{Faults: plan})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, c := range []context.Context{ctx, t.Context()} {
		go func() {
			_, err := client.PutObject(c, &s3.PutObjectInput{
				Bucket: aws.String("b"), Key: aws.String("k"), Body: bytes.NewReader(make([]byte, 100_000)),
			})
			ended <- err
		}()
	}
	require.Eventually(t, func() bool { return plan.Calls("s3.PutObject") == 2 }, testTimeout, tick)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, server.Close())
	require.Error(t, <-ended)
	require.Empty(t, server.MutatingCalls())
}
