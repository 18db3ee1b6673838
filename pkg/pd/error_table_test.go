package pd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestClassify_EveryRow_GivesItsKind(t *testing.T) {
	t.Parallel()
	header := func(kind pdpb.ErrorType, message string) error {
		return errors.New((&pdpb.Error{Type: kind, Message: message}).String())
	}
	refused := func(status int, body string) error { return &statusError{status: status, body: body} }
	for name, row := range map[string]struct {
		err  error
		want failure.Kind
	}{
		"http not bootstrapped":    {refused(500, "[PD:cluster:ErrNotBootstrapped]TiKV cluster not bootstrapped, please start TiKV first"), failure.Unready},
		"grpc not bootstrapped":    {header(pdpb.ErrorType_NOT_BOOTSTRAPPED, "cluster is not bootstrapped"), failure.Unready},
		"starting":                 {refused(500, "[PD:server:ErrServerNotStarted]server not started"), failure.Limited},
		"no scheduler":             {refused(500, "[PD:scheduler:ErrSchedulerNotFound]scheduler not found"), failure.NotFound},
		"ttl in the way":           {refused(400, "need to clean up TTL first for schedule.merge-schedule-limit"), failure.Conflict},
		"unknown ttl item":         {refused(400, "unsupported ttl config schedule.x"), failure.Usage},
		"not marked":               {refused(403, "can only recover alloc id when recovering mark marked"), failure.Unready},
		"ts refused":               {refused(403, "[PD:tso:ErrResetUserTimestamp]reset user timestamp failed, the specified ts is too larger than now"), failure.Conflict},
		"other tso trouble":        {status.Error(codes.Unknown, "[PD:tso:ErrGenerateTimestamp]generate timestamp failed"), failure.Limited},
		"other cluster":            {status.Error(codes.FailedPrecondition, "mismatch cluster id, need 1 but got 2"), failure.Conflict},
		"addresses of two":         {errors.New("[pd] unmatched cluster id"), failure.Conflict},
		"cluster replaced":         {errors.New("update member failed, cluster id does not match: 1 != 2"), failure.Conflict},
		"version":                  {header(pdpb.ErrorType_INCOMPATIBLE_VERSION, "too old"), failure.Unready},
		"no leader":                {refused(503, "no leader"), failure.Limited},
		"etcd's leader changed":    {refused(500, "etcdserver: leader changed"), failure.Limited},
		"etcd is slow":             {refused(500, "etcdserver: request timed out"), failure.Limited},
		"not leader":               {status.Error(codes.Unavailable, "not leader"), failure.Limited},
		"redirect":                 {refused(500, "[PD:apiutil:ErrRedirectNoLeader]redirect finds no leader"), failure.Limited},
		"unreachable at opening":   {errors.New("[pd] failed to get cluster id"), failure.Limited},
		"client library":           {errors.New("[PD:client:ErrClientGetTSO]get TSO failed"), failure.Limited},
		"from outside":             {errors.New("dial tcp: lookup db-pd-0.db-pd-peer.tidb.svc on 10.0.0.2:53: no such host"), failure.Limited},
		"handshake of a restart":   {status.Error(codes.Unavailable, `transport: authentication handshake failed: EOF`), failure.Limited},
		"handshake reset":          {status.Error(codes.Unavailable, `transport: authentication handshake failed: read tcp: connection reset by peer`), failure.Limited},
		"handshake refused":        {status.Error(codes.Unavailable, `transport: authentication handshake failed: remote error: tls: bad certificate`), failure.Denied},
		"400":                      {refused(400, "invalid tso value"), failure.Usage},
		"401":                      {refused(401, ""), failure.Denied},
		"403":                      {refused(403, "forbidden"), failure.Denied},
		"404":                      {refused(404, "404 page not found"), failure.NotFound},
		"405":                      {refused(405, ""), failure.Unready},
		"408":                      {refused(408, ""), failure.Limited},
		"429":                      {refused(429, ""), failure.Limited},
		"500 with something new":   {refused(500, "[PD:x:ErrNew]new"), failure.Unknown},
		"502":                      {refused(502, ""), failure.Limited},
		"503":                      {refused(503, ""), failure.Limited},
		"504":                      {refused(504, ""), failure.Limited},
		"grpc unavailable":         {status.Error(codes.Unavailable, "error reading from server: EOF"), failure.Limited},
		"grpc wrapped":             {fmt.Errorf("call: %w", status.Error(codes.Unavailable, "EOF")), failure.Limited},
		"grpc deadline":            {status.Error(codes.DeadlineExceeded, "too slow"), failure.Limited},
		"grpc exhausted":           {status.Error(codes.ResourceExhausted, "slow down"), failure.Limited},
		"grpc aborted":             {status.Error(codes.Aborted, ""), failure.Limited},
		"grpc unauthenticated":     {status.Error(codes.Unauthenticated, ""), failure.Denied},
		"grpc denied":              {status.Error(codes.PermissionDenied, ""), failure.Denied},
		"grpc unimplemented":       {status.Error(codes.Unimplemented, "unknown method"), failure.Unready},
		"grpc invalid":             {status.Error(codes.InvalidArgument, ""), failure.Usage},
		"grpc not found":           {status.Error(codes.NotFound, ""), failure.NotFound},
		"grpc precondition":        {status.Error(codes.FailedPrecondition, "other"), failure.Unready},
		"grpc internal":            {status.Error(codes.Internal, ""), failure.Unknown},
		"unknown authority":        {fmt.Errorf("get: %w", x509.UnknownAuthorityError{}), failure.Denied},
		"tls in grpc":              {status.Error(codes.Unavailable, "tls: failed to verify certificate: x509: ..."), failure.Denied},
		"connection refused":       {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, failure.Limited},
		"connection reset":         {fmt.Errorf("post: %w", io.EOF), failure.Limited},
		"something else":           {errors.New("who knows"), failure.Unknown},
		"an answer not understood": {fmt.Errorf("read answer: %w", errors.New("invalid character")), failure.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := classify(row.err)
			require.Equal(t, row.want.String(), got.kind.String())
		})
	}
}

func TestTranslate_ContextEnded_KeepsItsError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := translate(ctx, status.Error(codes.Canceled, "context canceled"), "take timestamp", "")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, translate(ctx, nil, "take timestamp", ""))
}

func TestTranslate_ClockOfTheTransportAhead_IsADeadline(t *testing.T) {
	t.Parallel()
	err := translate(t.Context(), status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM"), "hold gc", "x")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, failure.Limited, failure.KindOf(err))
}

func TestTranslate_RemoteText_IsCutAndStripped(t *testing.T) {
	t.Parallel()
	err := translate(t.Context(), status.Error(codes.Unknown, "\x1b[2Jfirst\nsecond"), "hold gc", "x")
	require.ErrorContains(t, err, "[2Jfirst second")
	require.NotContains(t, err.Error(), "\x1b")
}

func TestTranslate_Refusal_NamesOperationTargetAndHint(t *testing.T) {
	t.Parallel()
	err := translate(t.Context(), &statusError{500, "[PD:scheduler:ErrSchedulerNotFound]scheduler not found"}, "pause scheduler", "x")
	require.EqualError(t, err, "pause scheduler of x: pd answered 500: [PD:scheduler:ErrSchedulerNotFound]scheduler not found")
	require.Contains(t, failure.HintOf(err), "coordinator")
}

// PD or the transport can report that the deadline has passed before the timer of ctx has run; whoever then asks ctx has
// the same answer.
func TestTranslate_DeadlineOfTheContextItself_IsItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		call, cancel := context.WithTimeout(limited, time.Minute)
		defer cancel()
		err := translate(call, status.Error(codes.DeadlineExceeded, ""), "do", "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, limited.Err(), context.DeadlineExceeded)
	})
}
