package ebsdirect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestClassify_DocumentedErrors(t *testing.T) {
	t.Parallel()
	throttle := func(r types.RequestThrottledExceptionReason) error {
		return &types.RequestThrottledException{Reason: r}
	}
	for name, c := range map[string]struct {
		err   error
		kind  failure.Kind
		retry retry
		slow  scope
	}{
		"account":         {throttle(types.RequestThrottledExceptionReasonAccountThrottled), failure.Limited, throttled, account},
		"snapshot":        {throttle(types.RequestThrottledExceptionReasonResourceLevelThrottle), failure.Limited, throttled, snapshot},
		"KMS":             {throttle(types.RequestThrottledExceptionReasonDependencyRequestThrottled), failure.Limited, throttled, account},
		"unknown reason":  {throttle("NEW"), failure.Limited, throttled, account},
		"concurrent":      {&types.ConcurrentLimitExceededException{}, failure.Limited, throttled, account},
		"quota":           {&types.ServiceQuotaExceededException{}, failure.Limited, never, noRate},
		"conflict":        {&types.ConflictException{}, failure.Conflict, never, noRate},
		"not found":       {&types.ResourceNotFoundException{}, failure.NotFound, never, noRate},
		"denied":          {&types.AccessDeniedException{}, failure.Denied, never, noRate},
		"server":          {&types.InternalServerException{}, failure.Unknown, ambiguous, noRate},
		"write timed out": {&types.ValidationException{Reason: types.ValidationExceptionReasonWriteRequestTimeout}, failure.Unknown, ambiguous, noRate},
		"other writer":    {&types.ValidationException{Reason: types.ValidationExceptionReasonConflictingBlockUpdate}, failure.Conflict, never, noRate},
		"unrelated":       {&types.ValidationException{Reason: types.ValidationExceptionReasonUnrelatedSnapshots}, failure.Usage, never, noRate},
		"bad value":       {&types.ValidationException{Reason: types.ValidationExceptionReasonInvalidParameterValue}, failure.Usage, never, noRate},
		"new code":        {&smithy.GenericAPIError{Code: "New"}, failure.Unknown, never, noRate},
		"new, of server":  {&smithy.GenericAPIError{Code: "New", Fault: smithy.FaultServer}, failure.Unknown, ambiguous, noRate},
		"half an answer":  {io.ErrUnexpectedEOF, failure.Unknown, ambiguous, noRate},
		"no connection":   {&net.OpError{Op: "dial", Err: errors.New("refused")}, failure.Unknown, unsent, noRate},
		"cancelled":       {context.Canceled, failure.Unknown, never, noRate},
		"damaged":         {fmt.Errorf("%w: short", errDamaged), failure.Corrupt, ambiguous, noRate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := classify(fmt.Errorf("operation error: %w", c.err))
			require.Equal(t, c.kind, v.kind)
			require.Equal(t, c.retry, v.retry)
			require.Equal(t, c.slow, v.slow)
			require.Equal(t, c.kind, failure.KindOf(translate(c.err, opRead, "snap-1")))
		})
	}
}

func TestCodes_EveryDocumentedReason_IsUnderACodeOfTheTable(t *testing.T) {
	t.Parallel()
	for _, reason := range types.ValidationExceptionReason("").Values() {
		v := classify(&types.ValidationException{Reason: reason})
		require.NotEqual(t, class{}, v, reason)
	}
	for _, reason := range types.ResourceNotFoundExceptionReason("").Values() {
		require.Equal(t, failure.NotFound, classify(&types.ResourceNotFoundException{Reason: reason}).kind, reason)
	}
}
