package ebsdirect

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/smithy-go"

	"github.com/tisnap/tisnap/pkg/failure"
)

// retry is whether a refused call may be sent again.
type retry uint8

const (
	never     retry = iota // repeating the call gives the same answer
	throttled              // nothing happened; at the governor's new rate
	ambiguous              // it may have happened, and may be repeated: after a pause, a few times
	unsent                 // the request never reached AWS; after a pause
)

// scope is whose rate the governor lowers.
type scope uint8

const (
	noRate   scope = iota
	snapshot       // that of the call
	account        // all snapshots
)

// class is what to do about an error.
type class struct {
	kind  failure.Kind
	retry retry
	slow  scope
	hint  string
}

const (
	hintKey         = "check the KMS key, and that the role may use it"
	hintCredentials = "check the credentials and the clock of this machine"
)

// codes is the one table of error codes, each alone or as "Code/REASON". A code that is missing is Unknown. Source:
// https://docs.aws.amazon.com/ebs/latest/userguide/error-retries.html and the API reference.
var codes = map[string]class{
	"RequestThrottledException":                              {failure.Limited, throttled, account, ""},
	"RequestThrottledException/ACCOUNT_THROTTLED":            {failure.Limited, throttled, account, ""},
	"RequestThrottledException/RESOURCE_LEVEL_THROTTLE":      {failure.Limited, throttled, snapshot, ""},
	"RequestThrottledException/DEPENDENCY_REQUEST_THROTTLED": {failure.Limited, throttled, account, ""},
	"ThrottlingException":                                    {failure.Limited, throttled, account, ""},
	"ConcurrentLimitExceededException":                       {failure.Limited, throttled, account, ""},
	"ServiceQuotaExceededException": {
		failure.Limited, never, noRate, "raise the quota in Service Quotas, or free some of it",
	},
	"ServiceQuotaExceededException/DEPENDENCY_SERVICE_QUOTA_EXCEEDED": {
		failure.Limited, never, noRate, "raise the quota of KMS in Service Quotas",
	},

	"ConflictException": {failure.Conflict, never, noRate, "use a new client token"},

	"ResourceNotFoundException":                               {failure.NotFound, never, noRate, ""},
	"ResourceNotFoundException/SNAPSHOT_NOT_FOUND":            {failure.NotFound, never, noRate, ""},
	"ResourceNotFoundException/GRANT_NOT_FOUND":               {failure.NotFound, never, noRate, hintKey},
	"ResourceNotFoundException/DEPENDENCY_RESOURCE_NOT_FOUND": {failure.NotFound, never, noRate, hintKey},
	"ResourceNotFoundException/IMAGE_NOT_FOUND":               {failure.NotFound, never, noRate, ""},

	"ValidationException":                            {failure.Usage, never, noRate, ""},
	"ValidationException/INVALID_CUSTOMER_KEY":       {failure.Usage, never, noRate, hintKey},
	"ValidationException/INVALID_GRANT_TOKEN":        {failure.Usage, never, noRate, hintKey},
	"ValidationException/INVALID_DEPENDENCY_REQUEST": {failure.Usage, never, noRate, hintKey},
	"ValidationException/UNRELATED_SNAPSHOTS": {
		failure.Usage, never, noRate, "read all blocks: the snapshots are not of one volume",
	},
	"ValidationException/CONFLICTING_BLOCK_UPDATE": {
		failure.Conflict, never, noRate, "end the other process that writes this snapshot",
	},
	"ValidationException/WRITE_REQUEST_TIMEOUT": {failure.Unknown, ambiguous, noRate, ""},

	"AccessDeniedException":                          {failure.Denied, never, noRate, ""},
	"AccessDeniedException/DEPENDENCY_ACCESS_DENIED": {failure.Denied, never, noRate, hintKey},
	"ExpiredTokenException":                          {failure.Denied, never, noRate, hintCredentials},
	"InvalidSignatureException":                      {failure.Denied, never, noRate, hintCredentials},
	"UnrecognizedClientException":                    {failure.Denied, never, noRate, hintCredentials},
	"MissingAuthenticationTokenException":            {failure.Denied, never, noRate, hintCredentials},

	"InternalServerException": {failure.Unknown, ambiguous, noRate, ""},
	"InternalFailure":         {failure.Unknown, ambiguous, noRate, ""},
	"ServiceUnavailable":      {failure.Unknown, ambiguous, noRate, ""},
}

var (
	// errDamaged marks an answer whose data are not those that EBS has. The next one may be right.
	errDamaged = errors.New("the answer is damaged")
	// errToken marks a block token that is not or no longer valid.
	errToken = errors.New("block token is not valid")
	// errPageToken marks a token of the next page that is not or no longer valid.
	errPageToken = errors.New("page token is not valid")
)

// classify looks an error of the SDK up.
func classify(err error) class {
	if err == nil {
		return class{}
	}
	if errors.Is(err, errDamaged) {
		return class{kind: failure.Corrupt, retry: ambiguous}
	}
	if code := codeOf(err); code != "" {
		for _, key := range []string{code + "/" + reasonOf(err), code} {
			if v, ok := codes[key]; ok {
				return v
			}
		}
		var api smithy.APIError
		if errors.As(err, &api) && api.ErrorFault() == smithy.FaultServer || statusOf(err) >= 500 {
			return class{retry: ambiguous}
		}
		return class{}
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return class{retry: unsent, hint: "check the network and the endpoint URL"}
	}
	if errors.Is(err, context.Canceled) {
		return class{}
	}
	return class{retry: ambiguous} // no answer, or half an answer
}

func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// reasonOf is the reason that an error gives beside its code, or "".
func reasonOf(err error) string {
	var (
		slow    *types.RequestThrottledException
		quota   *types.ServiceQuotaExceededException
		missing *types.ResourceNotFoundException
		wrong   *types.ValidationException
		denied  *types.AccessDeniedException
	)
	switch {
	case errors.As(err, &slow):
		return string(slow.Reason)
	case errors.As(err, &quota):
		return string(quota.Reason)
	case errors.As(err, &missing):
		return string(missing.Reason)
	case errors.As(err, &wrong):
		return string(wrong.Reason)
	case errors.As(err, &denied):
		return string(denied.Reason)
	default:
		return ""
	}
}

func statusOf(err error) int {
	var response interface{ HTTPStatusCode() int }
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

// translate makes err a failure.Error by the table.
func translate(err error, op operation, target string) error {
	v := classify(err)
	switch types.ValidationExceptionReason(reasonOf(err)) {
	case types.ValidationExceptionReasonInvalidBlockToken:
		err = fmt.Errorf("%w: %w", errToken, err)
	case types.ValidationExceptionReasonInvalidPageToken:
		err = fmt.Errorf("%w: %w", errPageToken, err)
	default:
	}
	e := failure.New(v.kind, op.verb, target, "%w", failure.Remote(err))
	if v.retry == never && v.kind == failure.Limited {
		e = e.Lasting()
	}
	if v.hint == "" && v.kind == failure.Denied {
		return e.WithHint("allow %s to the role that runs this tool", op.action)
	}
	if v.hint != "" {
		return e.WithHint("%s", v.hint)
	}
	return e
}
