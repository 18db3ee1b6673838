package tikv

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestTranslate_EachCode_HasItsKind(t *testing.T) {
	t.Parallel()
	kinds := map[codes.Code]failure.Kind{
		codes.Canceled: failure.Conflict, codes.Unknown: failure.Unknown, codes.InvalidArgument: failure.Usage,
		codes.DeadlineExceeded: failure.Limited, codes.NotFound: failure.NotFound, codes.AlreadyExists: failure.Conflict,
		codes.PermissionDenied: failure.Denied, codes.ResourceExhausted: failure.Limited,
		codes.FailedPrecondition: failure.Unready, codes.Aborted: failure.Conflict, codes.OutOfRange: failure.Unknown,
		codes.Unimplemented: failure.Unready, codes.Internal: failure.Unknown, codes.Unavailable: failure.Unknown,
		codes.DataLoss: failure.Corrupt, codes.Unauthenticated: failure.Denied,
	}
	require.Len(t, classes, len(kinds))
	for code, kind := range kinds {
		err := translate(t.Context(), status.Error(code, "text"), "do", "s:1", hintRecovery)
		require.Equal(t, kind, failure.KindOf(err), code.String())
		require.Equal(t, code, status.Code(err), "the cause stays in the chain")
		require.ErrorContains(t, err, "do of store at s:1: ")
	}
	missing := translate(t.Context(), status.Error(codes.Unimplemented, ""), "do", "s:1", hintRecovery)
	require.Equal(t, hintRecovery, failure.HintOf(missing))
	require.NoError(t, translate(t.Context(), nil, "do", "s:1", ""))
}

// What a store answers reaches terminal, journal and log: as one line of printable text that is not too long.
func TestTranslate_RemoteText_IsCutAndStripped(t *testing.T) {
	t.Parallel()
	dirty := "\x1b[2Jpanic\n{\"level\":\"info\"}" + strings.Repeat("x", 1<<20)
	for name, err := range map[string]error{
		"a status":         translate(t.Context(), status.Error(codes.Internal, dirty), "do", "s:1", ""),
		"a region error":   regionError(1, &errorpb.Error{Message: dirty}),
		"a flashback text": flashed("do", Flashback{}, nil, dirty),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, err.Error(), "[2Jpanic {")
			require.NotContains(t, err.Error(), "\x1b")
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), failure.MaxRemote+200)
		})
	}
}

// A store that restarts ends the handshake with EOF or a reset: once taken for a bad certificate, that deleted a
// restored cluster.
func TestTranslate_HandshakeFailed_IsDeniedOnlyForACertificate(t *testing.T) {
	t.Parallel()
	for why, want := range map[string]failure.Kind{
		"EOF": failure.Unknown,
		"read tcp 10.0.0.1:40000->10.0.0.2:20160: read: connection reset by peer": failure.Unknown,
		"write: broken pipe":                                      failure.Unknown,
		"context deadline exceeded":                               failure.Unknown,
		"tls: failed to verify certificate: x509: unknown":        failure.Denied,
		"remote error: tls: bad certificate":                      failure.Denied,
		"tls: first record does not look like a TLS handshake":    failure.Denied,
		"x509: certificate is valid for a, not b":                 failure.Denied,
		"remote error: tls: certificate required (while dialing)": failure.Denied,
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			err := status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: `+why+`"`)
			require.Equal(t, want, failure.KindOf(translate(t.Context(), err, "do", "s:1", "")))
		})
	}
}

// Stores register with DNS names of their Kubernetes cluster. From outside the hint used to be to check the pod.
func TestTranslate_NameDoesNotResolve_HintNamesWhereToRun(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`connection error: desc = "transport: Error while dialing: dial tcp: lookup db-tikv-0.db-tikv-peer.tidb.svc on 10.0.0.2:53: no such host"`,
		"name resolver error: produced zero addresses",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			err := translate(t.Context(), status.Error(codes.Unavailable, text), "do", "db-tikv-0.db-tikv-peer.tidb.svc:20160", "")
			require.True(t, failure.Transient(err), "the name of a new pod may come")
			require.Equal(t, hintInside, failure.HintOf(err))
			require.Contains(t, hintInside, "--resolve or --address-map")
		})
	}
}

func TestRegionError_EachError_HasItsKind(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind RegionErrorKind
		in   *errorpb.Error
	}{
		{RegionNotPrepared, &errorpb.Error{FlashbackNotPrepared: &errorpb.FlashbackNotPrepared{}}},
		{RegionInFlashback, &errorpb.Error{FlashbackInProgress: &errorpb.FlashbackInProgress{}}},
		{RegionStale, &errorpb.Error{NotLeader: &errorpb.NotLeader{}}},
		{RegionStale, &errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}},
		{RegionStale, &errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{}}},
		{RegionStale, &errorpb.Error{KeyNotInRegion: &errorpb.KeyNotInRegion{}}},
		{RegionStale, &errorpb.Error{StoreNotMatch: &errorpb.StoreNotMatch{}}},
		{RegionStale, &errorpb.Error{MismatchPeerId: &errorpb.MismatchPeerId{}}},
		{RegionStale, &errorpb.Error{RegionNotInitialized: &errorpb.RegionNotInitialized{}}},
		{RegionStale, &errorpb.Error{IsWitness: &errorpb.IsWitness{}}},
		{RegionBusy, &errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}},
		{RegionUnready, &errorpb.Error{ReadIndexNotReady: &errorpb.ReadIndexNotReady{}}},
		{RegionUnready, &errorpb.Error{ProposalInMergingMode: &errorpb.ProposalInMergingMode{}}},
		{RegionUnready, &errorpb.Error{MaxTimestampNotSynced: &errorpb.MaxTimestampNotSynced{}}},
		{RegionUnready, &errorpb.Error{RecoveryInProgress: &errorpb.RecoveryInProgress{}}},
		{RegionUnready, &errorpb.Error{DataIsNotReady: &errorpb.DataIsNotReady{}}},
		{RegionOther, &errorpb.Error{StaleCommand: &errorpb.StaleCommand{}}},
		{RegionOther, &errorpb.Error{DiskFull: &errorpb.DiskFull{}}},
		{RegionOther, &errorpb.Error{Message: "anything"}},
		// TiKV checks flashback before leadership, and may report both.
		{RegionInFlashback, &errorpb.Error{
			FlashbackInProgress: &errorpb.FlashbackInProgress{}, NotLeader: &errorpb.NotLeader{},
		}},
	}
	for _, tc := range cases {
		t.Run(tc.in.String(), func(t *testing.T) {
			t.Parallel()
			got := regionError(5, tc.in)
			require.Equal(t, tc.kind, got.Kind, tc.in.String())
			require.ErrorContains(t, got, "region 5: ")
			require.NotEmpty(t, got.Message, tc.in.String())
		})
	}
	endless := regionError(5, &errorpb.Error{Message: "m", ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: math.MaxUint64}})
	require.Greater(t, endless.Backoff, 24*time.Hour, "it does not become negative")
	busy := regionError(5, &errorpb.Error{Message: "m", ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: 1500}})
	require.Equal(t, 1500*time.Millisecond, busy.Backoff)
}

// The store or the transport can report that the deadline has passed before the timer of ctx has run; whoever then asks
// ctx has the same answer.
func TestTranslate_DeadlineOfTheContextItself_IsItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		call, cancel := context.WithTimeout(limited, time.Minute)
		defer cancel()
		err := translate(call, status.Error(codes.DeadlineExceeded, ""), "do", "s:1", "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, limited.Err(), context.DeadlineExceeded)
	})
}
