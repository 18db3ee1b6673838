package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/tisnap/tisnap/pkg/failure"
)

// getTries bounds the tries of a Get whose body is truncated or does not match its checksum: the SDK retries requests,
// not bodies. On a way that resets a connection once in 100 MiB, an 8 MiB range of a pack breaks in one of 13 tries:
// with three, a restore of a TiB would fail nearly always, and with eight once in thousands.
const getTries = 8

// s3Store is a prefix in a bucket.
type s3Store struct {
	client *s3.Client
	bucket string
	prefix string // empty, or ends in '/'
	put    PutOptions
	retain func() Retention // of what is written; nil: the bucket's default

	transport *http.Transport
	watch     *stopwatch
}

// Close closes idle connections. Calls in progress continue.
func (s *s3Store) Close() { s.transport.CloseIdleConnections() }

// s3Call describes a request for errors.
type s3Call struct {
	op, action, bucket, key string
}

func (c s3Call) target() string { return "s3://" + c.bucket + "/" + c.key }

func (c s3Call) arn() string {
	if c.action == "s3:ListBucket" || c.key == "" {
		return "arn:aws:s3:::" + c.bucket
	}
	return "arn:aws:s3:::" + c.bucket + "/" + c.key
}

func (s *s3Store) call(op, action, key string) s3Call {
	return s3Call{op: op, action: action, bucket: s.bucket, key: s.prefix + key}
}

// URL implements Store.
func (s *s3Store) URL() string {
	return strings.TrimSuffix("s3://"+s.bucket+"/"+s.prefix, "/")
}

// Create implements Store. If an answer was lost and the SDK's next attempt finds our own object, it is read back: the
// same bytes mean success. Callers that may race with equal bytes must put a nonce in them.
func (s *s3Store) Create(ctx context.Context, key string, body []byte) (Version, error) {
	return s.write(ctx, "create object", key, body, func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") })
}

// Replace implements Store. A lost answer is resolved as in Create.
func (s *s3Store) Replace(ctx context.Context, key string, body []byte, old Version) (Version, error) {
	if old == "" {
		return "", failure.New(failure.Usage, "replace object", key, "no version given")
	}
	version, err := s.write(ctx, "replace object", key, body,
		func(in *s3.PutObjectInput) { in.IfMatch = aws.String(string(old)) })
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" { // the object, not the bucket
		err = failure.Wrap(err, failure.Conflict, "", "")
	}
	return version, err
}

func (s *s3Store) write(
	ctx context.Context, op, key string, body []byte, condition func(*s3.PutObjectInput),
) (Version, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{
		Bucket: aws.String(s.bucket), Key: aws.String(s.prefix + key), Body: bytes.NewReader(body),
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
	}
	if strings.HasSuffix(key, ".json") {
		in.ContentType = aws.String("application/json")
	}
	s.put.apply(in)
	if s.retain != nil {
		r := s.retain()
		in.ObjectLockMode, in.ObjectLockRetainUntilDate = types.ObjectLockMode(r.Mode), &r.Until
	}
	condition(in)
	attempts := 0
	out, err := s.client.PutObject(ctx, in, func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, countAttempts(&attempts))
	})
	if err == nil {
		return Version(aws.ToString(out.ETag)), nil
	}
	err = explainS3(ctx, err, s.call(op, "s3:PutObject", key))
	if attempts > 1 && failure.Is(err, failure.Conflict) {
		stored, version, readErr := s.Get(ctx, key)
		switch {
		case readErr == nil && bytes.Equal(stored, body):
			return version, nil
		case readErr != nil && !failure.Is(readErr, failure.NotFound):
			return "", failure.Wrap(readErr, failure.Unknown, op, key) // the object may be ours
		}
	}
	return "", err
}

// apply sets the options on in.
func (o PutOptions) apply(in *s3.PutObjectInput) {
	in.StorageClass, in.ACL = types.StorageClass(o.StorageClass), types.ObjectCannedACL(o.ACL)
	in.ServerSideEncryption = types.ServerSideEncryption(o.Encryption)
	if o.KMSKey != "" {
		in.SSEKMSKeyId = aws.String(o.KMSKey)
	}
}

// Get implements Store.
func (s *s3Store) Get(ctx context.Context, key string) ([]byte, Version, error) {
	return s.read(ctx, key, &s3.GetObjectInput{ChecksumMode: types.ChecksumModeEnabled}, nil)
}

// GetRange implements Store. S3 has no checksums of ranges.
func (s *s3Store) GetRange(ctx context.Context, key string, offset int64, into []byte) error {
	return s.readRange(ctx, key, nil, offset, into)
}

func (s *s3Store) readRange(ctx context.Context, key string, version *string, offset int64, into []byte) error {
	length := int64(len(into))
	if err := checkRange(key, offset, length); err != nil {
		return err
	}
	body, _, err := s.read(ctx, key, &s3.GetObjectInput{
		VersionId: version, Range: aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)),
	}, into)
	if err == nil && int64(len(body)) != length {
		return endsBefore(s.call("get object", "", key).target(), offset+length)
	}
	copy(into, body) // an answer without a length is read into a buffer of its own
	return err
}

// endsBefore is the error for an object that is shorter than a range of it.
func endsBefore(target string, end int64) error {
	return failure.New(failure.Corrupt, "get object", target, "it ends before byte %d", end)
}

// checkRange refuses ranges that no object has.
func checkRange(key string, offset, length int64) error {
	if offset < 0 || length <= 0 || offset > math.MaxInt64-length {
		return failure.New(failure.Usage, "get object", key, "no range: %d bytes from %d", length, offset)
	}
	return nil
}

// read makes the request of an object again if its body was at fault. The body is in into if it is as long as that.
func (s *s3Store) read(
	ctx context.Context, key string, in *s3.GetObjectInput, into []byte,
) ([]byte, Version, error) {
	if err := CheckKey(key); err != nil {
		return nil, "", err
	}
	in.Bucket, in.Key = aws.String(s.bucket), aws.String(s.prefix+key)
	action := "s3:GetObject"
	if in.VersionId != nil {
		action = "s3:GetObjectVersion"
	}
	for try := 1; ; try++ {
		body, version, again, err := s.get(ctx, in, into)
		if err == nil {
			return body, version, nil
		}
		if errors.Is(err, errWholeObject) {
			target := s.call("get object", "", key).target()
			return nil, "", failure.New(failure.Unready, "get object", target, "%w", err).
				WithHint("use Amazon S3, or a store that supports Range in GetObject")
		}
		err = explainS3(ctx, err, s.call("get object", action, key))
		if !again || try == getTries || ctx.Err() != nil {
			return nil, "", err
		}
	}
}

// errWholeObject is the answer of a server, or a proxy before it, that does not know Range. Its body is not read.
var errWholeObject = errors.New("its server ignores Range, and returns the whole object")

// get reads once; again is true if the body was at fault.
func (s *s3Store) get(
	ctx context.Context, in *s3.GetObjectInput, into []byte,
) (body []byte, version Version, again bool, err error) {
	out, err := s.client.GetObject(ctx, in)
	if err != nil {
		return nil, "", false, err
	}
	if in.Range != nil && out.ContentRange == nil && aws.ToInt64(out.ContentLength) != 0 {
		return nil, "", false, errors.Join(errWholeObject, out.Body.Close())
	}
	body, err = readBody(out.Body, aws.ToInt64(out.ContentLength), into)
	if closeErr := out.Body.Close(); err == nil {
		err = closeErr // the checksum is compared at the end of the body
	}
	if err == nil && out.ContentLength != nil && int64(len(body)) != *out.ContentLength {
		err = fmt.Errorf("%d bytes of %d: %w", len(body), *out.ContentLength, io.ErrUnexpectedEOF)
	}
	return body, Version(aws.ToString(out.ETag)), err != nil, err
}

// readBody reads all of a body that should have a length, at once: into a buffer that grows, it would be copied again
// and again. A body of another length is returned as it is.
func readBody(r io.Reader, length int64, into []byte) ([]byte, error) {
	const atOnce = 64 << 20 // the length is what a server claims
	if length <= 0 || length > atOnce {
		return io.ReadAll(r)
	}
	into = slices.Grow(into[:0], int(length))[:length]
	n, err := io.ReadFull(r, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return into[:n], nil
	}
	if err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(r) // the checksum is compared at its end
	return append(into, rest...), err
}

// List implements Store.
func (s *s3Store) List(ctx context.Context, prefix string) ([]Object, error) {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter implements Store. Directory buckets have no StartAfter and are listed whole.
func (s *s3Store) ListAfter(ctx context.Context, prefix, after string) ([]Object, error) {
	in := &s3.ListObjectsV2Input{Bucket: aws.String(s.bucket), Prefix: aws.String(s.prefix + prefix)}
	if after != "" {
		in.StartAfter = aws.String(s.prefix + after)
	}
	pages := s3.NewListObjectsV2Paginator(s.client, in)
	var objects []Object
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explainS3(ctx, err, s.call("list objects", "s3:ListBucket", prefix))
		}
		for _, o := range page.Contents {
			key := strings.TrimPrefix(aws.ToString(o.Key), s.prefix)
			if strings.HasSuffix(key, "/") || key == "" || key <= after {
				continue // a "folder" made by a console, or a server that ignores StartAfter
			}
			objects = append(objects, Object{
				Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified),
				Version: Version(aws.ToString(o.ETag)),
			})
		}
	}
	// Directory buckets do not sort.
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return objects, nil
}

// Delete implements Store.
func (s *s3Store) Delete(ctx context.Context, key string) error { return s.remove(ctx, key, nil) }

// DeleteVersion implements Store. If the server does not support conditional deletes, it deletes unconditionally.
func (s *s3Store) DeleteVersion(ctx context.Context, key string, old Version) error {
	if old == "" {
		return failure.New(failure.Usage, "delete object", key, "no version given")
	}
	err := s.remove(ctx, key, aws.String(string(old)))
	if failure.Is(err, failure.Usage) && failure.HintOf(err) == hintNoPut {
		return s.remove(ctx, key, nil)
	}
	return err
}

func (s *s3Store) remove(ctx context.Context, key string, version *string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket: aws.String(s.bucket), Key: aws.String(s.prefix + key), IfMatch: version,
	})
	err = explainS3(ctx, err, s.call("delete object", "s3:DeleteObject", key))
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return nil
	}
	return err
}

// countAttempts counts the attempts to send a request. Those of one call are sequential, so n needs no lock.
func countAttempts(n *int) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("CountAttempts", func(
			ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
		) (middleware.FinalizeOutput, middleware.Metadata, error) {
			*n++
			return next.HandleFinalize(ctx, in)
		}), "Retry", middleware.After)
	}
}
