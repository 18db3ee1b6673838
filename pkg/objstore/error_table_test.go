package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// sdkError is what the SDK returns for an answer with this status and code.
func sdkError(status int, code string) error {
	return &smithy.OperationError{ServiceID: "S3", OperationName: "PutObject", Err: &awshttp.ResponseError{
		RequestID: "REQ", ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
			Err:      &smithy.GenericAPIError{Code: code, Message: "the reason"},
		},
	}}
}

var putCall = s3Call{op: "create object", action: "s3:PutObject", bucket: "b", key: "p/k"}

func TestExplainS3_Code_HasAKind(t *testing.T) {
	t.Parallel()
	rows := map[string]failure.Kind{
		"NoSuchKey": failure.NotFound, "NoSuchBucket": failure.NotFound,
		"AccessDenied": failure.Denied, "AllAccessDisabled": failure.Denied, "AccountProblem": failure.Denied,
		"InvalidAccessKeyId": failure.Denied, "SignatureDoesNotMatch": failure.Denied, "ExpiredToken": failure.Denied,
		"InvalidToken": failure.Denied, "TokenRefreshRequired": failure.Denied, "RequestTimeTooSkewed": failure.Denied,
		"KMS.DisabledException": failure.Denied, "KMS.NotFoundException": failure.Denied,
		"PreconditionFailed": failure.Conflict, "ConditionalRequestConflict": failure.Conflict,
		"SlowDown": failure.Limited, "ServiceUnavailable": failure.Limited, "Busy": failure.Limited,
		"RequestTimeout": failure.Limited, "RequestLimitExceeded": failure.Limited, "Throttling": failure.Limited,
		"ThrottlingException": failure.Limited, "TooManyRequestsException": failure.Limited,
		"OperationAborted": failure.Limited, "QuotaExceeded": failure.Limited,
		"PermanentRedirect": failure.Usage, "AuthorizationHeaderMalformed": failure.Usage,
		"InvalidBucketName": failure.Usage, "KeyTooLongError": failure.Usage, "EntityTooLarge": failure.Usage,
		"InvalidArgument": failure.Usage, "InvalidRequest": failure.Usage, "MethodNotAllowed": failure.Usage,
		"NotImplemented": failure.Usage, "InvalidObjectState": failure.Unready, "InvalidRange": failure.Corrupt,
		"BadDigest": failure.Unknown, "XAmzContentSHA256Mismatch": failure.Unknown, "IncompleteBody": failure.Unknown,
		"InternalError": failure.Unknown,
	}
	require.Len(t, rows, len(outcomes()), "a row without a test")
	for code, want := range rows {
		require.Contains(t, outcomes(), code)
		err := explainS3(t.Context(), sdkError(http.StatusTeapot, code), putCall)
		require.Equal(t, want, failure.KindOf(err), code)
		require.EqualError(t, err, "create object of s3://b/p/k: "+code+": the reason (request REQ)")
	}
}

func TestExplainS3_HostileText_IsOneLineWithoutControls(t *testing.T) {
	t.Parallel()
	err := explainS3(t.Context(), sdkError(http.StatusTeapot, "Odd\x1b[2J\n"), putCall)
	require.EqualError(t, err, "create object of s3://b/p/k: Odd[2J : the reason (request REQ)")
}

func TestExplainS3_UnknownCode_IsJudgedByStatus(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for status, want := range map[int]failure.Kind{
		401: failure.Denied, 403: failure.Denied, 404: failure.NotFound, 409: failure.Conflict, 412: failure.Conflict,
		429: failure.Limited, 503: failure.Limited, 301: failure.Usage, 307: failure.Usage, 400: failure.Unknown,
		500: failure.Unknown, 502: failure.Unknown,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			err := explainS3(t.Context(), sdkError(status, "NeverHeardOf"), putCall)
			require.Equal(t, want, failure.KindOf(err), status)
		})
	}
}

func TestExplainS3_Hints_NameActionAndTarget(t *testing.T) {
	t.Parallel()
	hint := func(call s3Call, code string) string {
		return failure.HintOf(explainS3(t.Context(), sdkError(403, code), call))
	}
	require.Contains(t, hint(putCall, "AccessDenied"), "grant s3:PutObject on arn:aws:s3:::b/p/k to this role")
	list := s3Call{op: "list objects", action: "s3:ListBucket", bucket: "b", key: "p/"}
	require.Contains(t, hint(list, "AccessDenied"), "grant s3:ListBucket on arn:aws:s3:::b to this role")
	require.Equal(t, "create bucket b, or correct --storage", hint(putCall, "NoSuchBucket"))
	require.Contains(t, hint(putCall, "PermanentRedirect"), "--region")
}

func TestExplainS3_ErrorsOfTheSDKItself_HaveAKind(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for text, want := range map[string]failure.Kind{
		"get identity: get credentials: failed to refresh": failure.Denied,
		"checksum did not match: algorithm SHA256":         failure.Corrupt,
		"Invalid region: region was not a valid DNS name":  failure.Usage,
		"dial tcp: connection refused":                     failure.Unknown,
	} {
		t.Run(text, func(t *testing.T) {
			require.Equal(t, want, failure.KindOf(explainS3(t.Context(), errors.New(text), putCall)), text)
		})
	}
	require.NoError(t, explainS3(t.Context(), nil, putCall))
}

func TestExplainS3_ConnectionRefused_HintNamesWhatToCheck(t *testing.T) {
	t.Parallel()
	err := explainS3(t.Context(), fmt.Errorf("request send failed: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")}), putCall)
	require.Equal(t, failure.Unknown, failure.KindOf(err), "it may be back in a moment")
	require.Contains(t, failure.HintOf(err), "endpoint URL")
}

func TestExplain_EndedContext_KeepsItsIdentity(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err := explainS3(ctx, sdkError(500, "InternalError"), putCall)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, failure.Limited, failure.KindOf(err))
	require.ErrorIs(t, explainFile(ctx, ctx.Err(), "get object", "k"), context.DeadlineExceeded)
}

func TestExplainFile_Errno_HasAKind(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for cause, want := range map[error]failure.Kind{
		fs.ErrNotExist: failure.NotFound, fs.ErrExist: failure.Conflict, fs.ErrPermission: failure.Denied,
		syscall.EACCES: failure.Denied, syscall.EROFS: failure.Denied, syscall.ENOSPC: failure.Limited,
		syscall.EDQUOT: failure.Limited, syscall.EMFILE: failure.Limited, syscall.ENOTDIR: failure.Usage,
		syscall.EISDIR: failure.Usage, syscall.ENAMETOOLONG: failure.Usage, syscall.EIO: failure.Unknown,
		failure.New(failure.Conflict, "", "", "x"): failure.Conflict,
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			err := explainFile(t.Context(), fmt.Errorf("write /x: %w", cause), "create object", "k")
			require.Equal(t, want, failure.KindOf(err), cause)
		})
	}
	require.NoError(t, explainFile(t.Context(), nil, "create object", "k"))
}
