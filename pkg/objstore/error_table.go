package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/tisnap/tisnap/pkg/failure"
)

// outcome is what an error of S3 means to a caller.
type outcome struct {
	kind failure.Kind
	hint string // may use {action}, {target} and {bucket}
}

const (
	hintAllow  = "grant {action} on {target} to this role, in IAM and in the bucket policy"
	hintLogin  = "renew the credentials: aws sso login, AWS_PROFILE, or the pod's role"
	hintRegion = "set --region to the bucket's own region"
	hintReach  = "check the network and the endpoint URL"
	hintNoPut  = "use an S3 that supports conditional writes (If-None-Match and If-Match)"
)

// outcomes maps S3's error codes, and is the only place that knows them. Any other code is classified by its HTTP
// status, or without one is Unknown, which is retried until the step's deadline.
func outcomes() map[string]outcome {
	return map[string]outcome{
		"NoSuchKey":    {failure.NotFound, ""},
		"NoSuchBucket": {failure.NotFound, "create bucket {bucket}, or correct --storage"},

		"AccessDenied":          {failure.Denied, hintAllow},
		"AllAccessDisabled":     {failure.Denied, "ask the owner of the bucket: all access to it is disabled"},
		"AccountProblem":        {failure.Denied, "ask AWS support: the account has a problem"},
		"InvalidAccessKeyId":    {failure.Denied, hintLogin},
		"SignatureDoesNotMatch": {failure.Denied, hintLogin},
		"ExpiredToken":          {failure.Denied, hintLogin},
		"InvalidToken":          {failure.Denied, hintLogin},
		"TokenRefreshRequired":  {failure.Denied, hintLogin},
		"RequestTimeTooSkewed": {
			failure.Denied, "set this machine's clock: it differs from AWS's by more than 15 minutes",
		},
		"KMS.DisabledException": {failure.Denied, "enable the bucket's KMS key"},
		"KMS.NotFoundException": {failure.Denied, "restore the bucket's KMS key"},

		"InvalidRange": {failure.Corrupt, ""},

		"PreconditionFailed":         {failure.Conflict, ""},
		"ConditionalRequestConflict": {failure.Conflict, ""},

		"SlowDown":                 {failure.Limited, ""},
		"ServiceUnavailable":       {failure.Limited, ""},
		"Busy":                     {failure.Limited, ""},
		"RequestTimeout":           {failure.Limited, ""},
		"RequestLimitExceeded":     {failure.Limited, ""},
		"Throttling":               {failure.Limited, ""},
		"ThrottlingException":      {failure.Limited, ""},
		"TooManyRequestsException": {failure.Limited, ""},
		"OperationAborted":         {failure.Limited, ""},
		"QuotaExceeded":            {failure.Limited, "raise the store's quota, or delete old backups"},

		"PermanentRedirect":            {failure.Usage, hintRegion},
		"AuthorizationHeaderMalformed": {failure.Usage, hintRegion},
		"InvalidBucketName":            {failure.Usage, "correct the bucket in --storage"},
		"KeyTooLongError":              {failure.Usage, "choose a shorter prefix in --storage"},
		"EntityTooLarge":               {failure.Usage, ""},
		"InvalidArgument":              {failure.Usage, ""},
		"InvalidRequest":               {failure.Usage, ""},
		"MethodNotAllowed":             {failure.Usage, ""},
		"NotImplemented":               {failure.Usage, hintNoPut},

		"InvalidObjectState": {failure.Unready, "restore the object from its archive storage class first"},

		// The upload was damaged in transit: nothing was stored, so retry.
		"BadDigest":                 {failure.Unknown, ""},
		"XAmzContentSHA256Mismatch": {failure.Unknown, ""},
		"IncompleteBody":            {failure.Unknown, ""},
		"InternalError":             {failure.Unknown, ""},
	}
}

func byStatus(status int) outcome {
	switch status {
	case http.StatusForbidden, http.StatusUnauthorized:
		return outcome{failure.Denied, hintAllow}
	case http.StatusNotFound:
		return outcome{failure.NotFound, ""}
	case http.StatusPreconditionFailed, http.StatusConflict:
		return outcome{failure.Conflict, ""}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return outcome{failure.Limited, ""}
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return outcome{failure.Usage, hintRegion}
	default:
		return outcome{failure.Unknown, ""}
	}
}

// explainS3 turns an error of the SDK into a failure, without the SDK's types; context errors are kept.
func explainS3(ctx context.Context, err error, c s3Call) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return failure.Wrap(ctx.Err(), failure.Unknown, c.op, c.target())
	}
	o := outcome{failure.Unknown, ""}
	cause := errors.New(plain(err))
	var response *awshttp.ResponseError
	var api smithy.APIError
	switch {
	case errors.As(err, &api):
		o = byStatus(0)
		if errors.As(err, &response) {
			o = byStatus(response.HTTPStatusCode())
		}
		if known, ok := outcomes()[api.ErrorCode()]; ok {
			o = known
		}
		cause = fmt.Errorf("%s: %s", api.ErrorCode(), api.ErrorMessage())
		if response != nil && response.ServiceRequestID() != "" {
			cause = fmt.Errorf("%w (request %s)", cause, response.ServiceRequestID())
		}
	case strings.Contains(err.Error(), "checksum did not match"): // not a type in the SDK
		o = outcome{failure.Corrupt, ""}
	case strings.Contains(err.Error(), "get credentials"), strings.Contains(err.Error(), "get identity"):
		o = outcome{failure.Denied, hintLogin}
	case strings.Contains(err.Error(), "Invalid region"), strings.Contains(err.Error(), "Missing Region"):
		o = outcome{failure.Usage, "set --region or AWS_REGION"}
	case notReached(err):
		o = outcome{failure.Unknown, hintReach}
	}
	fail := &failure.Error{Op: c.op, Target: c.target(), Kind: o.kind, Err: failure.Remote(cause)}
	fail.Hint = strings.NewReplacer("{action}", c.action, "{target}", c.arn(), "{bucket}", c.bucket).Replace(o.hint)
	return fail
}

// notReached reports whether connecting failed.
func notReached(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// plain returns the SDK's error text without the operation and response it is wrapped in.
func plain(err error) string {
	var operation *smithy.OperationError
	if errors.As(err, &operation) {
		err = operation.Err
	}
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.Err != nil {
		err = response.Err
	}
	return err.Error()
}

// explainFile turns an error of the file system into a failure. The error's own text has the path.
func explainFile(ctx context.Context, err error, op, key string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return failure.Wrap(err, failure.Unknown, op, key)
	}
	var known *failure.Error
	if errors.As(err, &known) {
		return failure.Annotate(err, op, key)
	}
	fail := &failure.Error{Op: op, Target: key, Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fail.Kind = failure.NotFound
	case errors.Is(err, fs.ErrExist):
		fail.Kind = failure.Conflict
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		fail.Kind, fail.Hint = failure.Denied, "give this user write access to the folder in --storage"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EMFILE):
		fail.Kind, fail.Hint = failure.Limited, "free space on the file system of --storage"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENAMETOOLONG):
		fail.Kind, fail.Hint = failure.Usage, "choose a folder in --storage that has nothing but backups"
	}
	return fail
}
