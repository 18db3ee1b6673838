package ebs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestClassify_Code_KindAndRetry(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		kind  failure.Kind
		again again
	}{
		"RequestLimitExceeded":                  {failure.Limited, throttled},
		"SnapshotCreationPerVolumeRateExceeded": {failure.Limited, spaced},
		"PendingSnapshotLimitExceeded":          {failure.Limited, queued},
		"ConcurrentSnapshotLimitExceeded":       {failure.Limited, queued},
		"SnapshotLimitExceeded":                 {failure.Limited, never},
		"ResourceLimitExceeded":                 {failure.Limited, queued},
		"TagLimitExceeded":                      {failure.Usage, never},
		"VolumeLimitExceeded":                   {failure.Limited, never},
		"VolumeIOPSLimit":                       {failure.Limited, never},
		"VolumeTypeNotAvailableInZone":          {failure.Usage, never},
		"IdempotentParameterMismatch":           {failure.Conflict, never},
		"VolumeInUse":                           {failure.Conflict, never},
		"IncorrectState":                        {failure.Unready, never},
		"InvalidSnapshot.NotFound":              {failure.NotFound, never},
		"InvalidVolume.NotFound":                {failure.NotFound, never},
		"InvalidInstanceID.NotFound":            {failure.NotFound, never},
		"InvalidZone.NotFound":                  {failure.NotFound, never},
		"CopyVolumesLimitExceeded":              {failure.Limited, queued},
		"InvalidParameterValue":                 {failure.Usage, never},
		"InvalidParameterCombination":           {failure.Usage, never},
		"UnauthorizedOperation":                 {failure.Denied, never},
		"AuthFailure":                           {failure.Denied, never},
		"ExpiredToken":                          {failure.Denied, never},
		"InternalError":                         {failure.Unknown, ambiguous},
		"ServiceUnavailable":                    {failure.Unknown, ambiguous},
		"NeverHeardOf":                          {failure.Unknown, never},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("operation error EC2: %w", &smithy.GenericAPIError{Code: code, Message: "text"})
			got := classify(err)
			require.Equal(t, want.kind, got.kind)
			require.Equal(t, want.again, got.again)
			out := translate(err, operation{verb: "create volume", action: ActionCreateVolume, tagged: true}, "vol-1")
			require.Equal(t, want.kind, failure.KindOf(out))
			require.ErrorContains(t, out, "create volume of vol-1: ")
			require.ErrorContains(t, out, code)
			if want.kind == failure.Denied {
				require.NotEmpty(t, failure.HintOf(out))
			}
		})
	}
}

func TestClassify_NoCode_ByWhatReachedEC2(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	require.Equal(t, unsent, classify(fmt.Errorf("send: %w", dial)).again)
	require.Equal(t, ambiguous, classify(&net.OpError{Op: "read", Err: errors.New("reset")}).again)
	require.Equal(t, ambiguous, classify(io.ErrUnexpectedEOF).again)
	require.Equal(t, ambiguous, classify(&smithy.DeserializationError{Err: io.EOF}).again)
	require.Equal(t, ambiguous, classify(&smithy.GenericAPIError{Code: "New", Fault: smithy.FaultServer}).again)
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
		for a, bounds := range map[again][2]time.Duration{
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	started := time.Now()
	require.ErrorIs(t, realClock{}.Sleep(ctx, time.Hour), context.DeadlineExceeded)
	require.Less(t, time.Since(started), 10*time.Second)
	require.NoError(t, realClock{}.Sleep(ctx, time.Millisecond))
	cancel()
	require.ErrorIs(t, realClock{}.Sleep(ctx, time.Millisecond), context.Canceled)
}

func TestPercent_Texts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "0%": 0, "42%": 42, " 99% ": 99, "100%": 100, "250%": 100, "-1%": 0, "x": 0} {
		require.Equal(t, want, percent(text), text)
	}
}
