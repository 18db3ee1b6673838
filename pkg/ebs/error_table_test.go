package ebs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// known is what is expected of each code of the table.
var known = []struct {
	kind  failure.Kind
	retry retry
	codes string
}{
	{failure.Conflict, never, `IdempotentParameterMismatch InvalidSnapshot.InUse InvalidVolume.ZoneMismatch
		SnapshotLocked VolumeInUse`},
	{failure.Denied, never, `AccessDenied AccessDeniedException AuthFailure Blocked ExpiredToken ExpiredTokenException
		IncompleteSignature InvalidClientTokenId MissingAuthenticationToken OperationNotPermitted
		OptInRequired PendingVerification RequestExpired SignatureDoesNotMatch
		UnauthorizedOperation UnrecognizedClientException`},
	{failure.Limited, later, `InsufficientVolumeCapacity`},
	{failure.Limited, never, `MaxIOPSLimitExceeded SnapshotLimitExceeded VolumeIOPSLimit
		VolumeLimitExceeded VolumeModificationRateExceeded VolumeModificationSizeLimitExceeded`},
	{failure.Limited, queued, `ConcurrentSnapshotLimitExceeded CopyVolumesLimitExceeded PendingSnapshotLimitExceeded
		ResourceLimitExceeded`},
	{failure.Limited, spaced, `SnapshotCreationPerVolumeRateExceeded`},
	{failure.Limited, throttled, `EC2ThrottledException RequestLimitExceeded RequestThrottled RequestThrottledException
		Throttling ThrottlingException TooManyRequestsException`},
	{failure.NotFound, never, `InvalidInstanceID.NotFound InvalidSnapshot.NotFound InvalidVolume.NotFound
		InvalidZone.NotFound NoSuchResourceException NotFoundException`},
	{failure.Unknown, ambiguous, `DependencyTimeoutException InternalError InternalFailure KMSInternalException KeyUnavailableException RequestTimeout ServerInternal ServiceException
		ServiceUnavailable Unavailable`},
	{failure.Unready, never, `DisabledException IncorrectInstanceState IncorrectModificationState IncorrectState
		KMSInvalidStateException`},
	{failure.Corrupt, never, `IncorrectKeyException InvalidCiphertextException`},
	{failure.Usage, never, `FilterLimitExceeded InvalidArnException InvalidKeyUsageException InvalidID InvalidAction InvalidArgument InvalidInstanceID.Malformed
		InvalidParameter InvalidParameterCombination InvalidParameterDependency InvalidParameterValue InvalidRequest
		InvalidSnapshotID.Malformed InvalidTagKey.Malformed InvalidUserID.Malformed InvalidVolumeID.Malformed
		MissingAction MissingParameter TagLimitExceeded UnknownParameter UnsupportedOperation
		ValidationError VolumeTypeNotAvailableInZone`},
}

func TestClassify_Code_KindAndRetry(t *testing.T) {
	t.Parallel()
	tested := 0
	for _, row := range known {
		for _, code := range strings.Fields(row.codes) {
			tested++
			err := fmt.Errorf("operation error EC2: %w", &smithy.GenericAPIError{Code: code, Message: "text"})
			got := classify(err)
			require.Equal(t, row.kind, got.kind, code)
			require.Equal(t, row.retry, got.retry, code)
			out := translate(err, operation{verb: "create volume", action: ActionCreateVolume, tagged: true}, "vol-1")
			require.Equal(t, row.kind, failure.KindOf(out), code)
			require.ErrorContains(t, out, "create volume of vol-1: ")
			require.ErrorContains(t, out, code)
			permanent := row.kind == failure.Limited && row.retry == never
			require.Equal(t, permanent, failure.Permanent(out), code)
			if row.kind == failure.Denied {
				require.NotEmpty(t, failure.HintOf(out), code)
			}
		}
	}
	require.Len(t, codes, tested, "each code of the table has a row here")
}

func TestClassify_CodeNotInTheTable_ByItsName(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for code, want := range map[string]failure.Kind{
		"SomethingNewLimitExceeded": failure.Limited,
		"InvalidThing.NotFound":     failure.NotFound,
		"InvalidThing.Malformed":    failure.Usage,
		"NeverHeardOf":              failure.Unknown,
	} {
		t.Run(code, func(t *testing.T) {
			got := classify(&smithy.GenericAPIError{Code: code})
			require.Equal(t, want, got.kind, code)
			require.Equal(t, never, got.retry, code)
			require.NotContains(t, codes, code)
		})
	}
}

func TestClassify_NoCode_ByWhatReachedEC2(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	require.Equal(t, unsent, classify(fmt.Errorf("send: %w", dial)).retry)
	require.Equal(t, ambiguous, classify(&net.OpError{Op: "read", Err: errors.New("reset")}).retry)
	require.Equal(t, ambiguous, classify(io.ErrUnexpectedEOF).retry)
	require.Equal(t, ambiguous, classify(&smithy.DeserializationError{Err: io.EOF}).retry)
	require.Equal(t, ambiguous, classify(&smithy.GenericAPIError{Code: "New", Fault: smithy.FaultServer}).retry)
}

func TestTranslate_ContextErrors_KeepIdentity(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		require.ErrorIs(t, translate(fmt.Errorf("x: %w", cause), operation{verb: "v"}, ""), cause)
	}
	require.NoError(t, translate(nil, operation{}, ""))
	known := failure.New(failure.Conflict, "a", "b", "c").WithHint("d")
	require.Same(t, known, translate(known, operation{verb: "other"}, ""))
}

func TestTranslate_RemoteText_IsCutAndStripped(t *testing.T) {
	t.Parallel()
	err := translate(errors.New("\x1b[2Jfirst\nsecond"), operation{verb: "create volume"}, "vol-1")
	require.EqualError(t, err, "create volume of vol-1: [2Jfirst second")
}

func TestTranslate_Unauthorized_NamesActions(t *testing.T) {
	t.Parallel()
	err := translate(&smithy.GenericAPIError{Code: "UnauthorizedOperation"},
		operation{verb: "create snapshots", action: ActionCreateSnapshots, tagged: true}, "i-1")
	require.Equal(t, "allow ec2:CreateSnapshots and ec2:CreateTags to the role that runs this tool", failure.HintOf(err))
}

func TestDelay_AnyTry_WithinBounds(t *testing.T) {
	t.Parallel()
	for try := range 100 {
		require.GreaterOrEqual(t, delay(spaced, try), 15*time.Second)
		require.LessOrEqual(t, delay(spaced, try), 17*time.Second)
		for a, bounds := range map[retry][2]time.Duration{
			throttled: {throttleStart / 2, throttleMax}, queued: {queueStart / 2, queueMax},
			ambiguous: {throttleStart / 2, throttleMax}, unsent: {throttleStart / 2, throttleMax},
		} {
			require.GreaterOrEqual(t, delay(a, try), bounds[0])
			require.LessOrEqual(t, delay(a, try), bounds[1])
		}
	}
}

func TestRealClock_DeadlineBeforeEnd_GivesUpAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		started := time.Now()
		require.ErrorIs(t, realClock{}.Sleep(ctx, time.Hour), context.DeadlineExceeded)
		require.Zero(t, time.Since(started))
		require.NoError(t, realClock{}.Sleep(ctx, time.Millisecond))
		require.Equal(t, time.Millisecond, time.Since(started))
		cancel()
		require.ErrorIs(t, realClock{}.Sleep(ctx, time.Millisecond), context.Canceled)
	})
}

func TestPercent_Texts(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for text, want := range map[string]int{"": 0, "0%": 0, "42%": 42, " 99% ": 99, "100%": 100, "250%": 100, "-1%": 0, "x": 0} {
		t.Run(text, func(t *testing.T) {
			require.Equal(t, want, percent(text), text)
		})
	}
}
