package tikv

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/saturate"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	hintPrepare     = "upgrade TiKV to v6.5.8, v7.5.1, v8.1.0 or later: older ones cannot be held for a snapshot"
	hintRecovery    = "the store is not in recovery mode: mark the cluster as recovering in PD and restart the store"
	hintOtherBackup = "make sure that no other backup of the cluster is running"
	hintReach       = "check that the store's pod runs and that its address is reachable from here"
	hintInside      = "stores register with DNS names that resolve only inside the Kubernetes cluster: run there, as " +
		"a Job, or use --via port-forward, or map them with --resolve or --address-map"
	hintForward = "grant create pods/portforward, or use --via direct"
	hintTLS     = "check that the CA, certificate and key (--ca, --cert and --key, or the secret " +
		"NAME-cluster-client-secret) belong to the cluster"
)

// class is what a caller can do about a gRPC code.
type class struct {
	kind failure.Kind
	hint string
}

// classes is what TiKV's gRPC codes mean. Any other code is Unknown.
var classes = map[codes.Code]class{
	// Another stream took the store over, which ends ours: "the loop has been aborted by server".
	codes.Canceled: {failure.Conflict, hintOtherBackup},
	// Another RecoverRegion or ReadRegionMeta took the store over.
	codes.Aborted:       {failure.Conflict, "make sure that no other restore of the cluster is running"},
	codes.AlreadyExists: {failure.Conflict, ""},
	// WaitApply without a valid lease.
	codes.FailedPrecondition: {failure.Unready, ""},
	// The caller adds the hint, which depends on the missing service.
	codes.Unimplemented:     {failure.Unready, ""},
	codes.InvalidArgument:   {failure.Usage, ""},
	codes.NotFound:          {failure.NotFound, ""},
	codes.PermissionDenied:  {failure.Denied, hintTLS},
	codes.Unauthenticated:   {failure.Denied, hintTLS},
	codes.DeadlineExceeded:  {failure.Limited, ""},
	codes.ResourceExhausted: {failure.Limited, ""},
	codes.DataLoss:          {failure.Corrupt, ""},
	// The store is down, restarting or crashed: worth retrying until the step's deadline.
	codes.Unavailable: {failure.Unknown, hintReach},
	codes.Unknown:     {failure.Unknown, ""},
	codes.Internal:    {failure.Unknown, ""},
	codes.OutOfRange:  {failure.Unknown, ""},
}

// handshakeText is in gRPC's Unavailable if the TLS handshake fails. Followed by one of badTLSTexts, one side rejects
// the other's certificate, and retrying is useless; anything else, such as "EOF" or a reset, is a restarting store.
const handshakeText = "authentication handshake failed"

var badTLSTexts = []string{"x509:", "tls:"}

// classify looks a gRPC error up.
func classify(err error) class {
	s := status.Convert(err)
	if _, why, found := strings.Cut(s.Message(), handshakeText); found && s.Code() == codes.Unavailable {
		if slices.ContainsFunc(badTLSTexts, func(text string) bool { return strings.Contains(why, text) }) {
			return class{failure.Denied, hintTLS}
		}
	}
	if s.Code() == codes.Unavailable && strings.Contains(s.Message(), forwardDenied) {
		return class{failure.Denied, hintForward}
	}
	if v := classes[s.Code()]; s.Code() != codes.Unavailable || !unresolved(s.Message()) {
		return v
	}
	return class{classes[codes.Unavailable].kind, hintInside}
}

// forwardDenied is the API server's answer to a port forward that RBAC does not allow.
const forwardDenied = `cannot create resource "pods/portforward"`

// unresolved recognizes a name unknown to DNS: the pod does not exist yet, or the lookup is from outside the cluster.
func unresolved(message string) bool {
	return strings.Contains(message, "no such host") || strings.Contains(message, "produced zero addresses")
}

// translate turns a gRPC error into a failure.Error. missing is the hint if the store lacks the service.
// If ctx ended the call, the error is ctx's.
func translate(ctx context.Context, err error, op, address, missing string) error {
	if err == nil {
		return nil
	}
	if fenced.Refused(err) {
		return failure.Annotate(err, op, target(address))
	}
	if status.Code(err) == codes.DeadlineExceeded {
		wait.ForDeadline(ctx)
	}
	if ended := interrupted(ctx, op, target(address)); ended != nil {
		return ended
	}
	v := classify(err)
	switch status.Code(err) {
	case codes.Unimplemented:
		v.hint = missing
	case codes.DeadlineExceeded: // not ctx's own
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	default:
	}
	e := failure.New(v.kind, op, target(address), "%w", failure.Remote(err))
	if v.hint != "" {
		return e.WithHint("%s", v.hint)
	}
	return e
}

// regionErrorMatch recognizes one kind of region error.
type regionErrorMatch struct {
	kind    RegionErrorKind
	matches func(*errorpb.Error) bool
}

// regionErrorTable maps region errors to kinds; the first match wins, and any other error is RegionOther.
// Flashback errors come first: TiKV checks them before leadership.
var regionErrorTable = []regionErrorMatch{
	{RegionNotPrepared, func(e *errorpb.Error) bool { return e.FlashbackNotPrepared != nil }},
	{RegionInFlashback, func(e *errorpb.Error) bool { return e.FlashbackInProgress != nil }},
	{RegionStale, func(e *errorpb.Error) bool { return e.NotLeader != nil }},
	{RegionStale, func(e *errorpb.Error) bool { return e.EpochNotMatch != nil }},
	{RegionStale, func(e *errorpb.Error) bool { return e.RegionNotFound != nil }},
	{RegionStale, func(e *errorpb.Error) bool { return e.KeyNotInRegion != nil }},
	{RegionStale, func(e *errorpb.Error) bool { return e.StoreNotMatch != nil }},
	{RegionStale, func(e *errorpb.Error) bool { return e.MismatchPeerId != nil }},
	{RegionStale, func(e *errorpb.Error) bool { return e.RegionNotInitialized != nil }},
	{RegionStale, func(e *errorpb.Error) bool { return e.IsWitness != nil }},
	{RegionBusy, func(e *errorpb.Error) bool { return e.ServerIsBusy != nil }},
	{RegionUnready, func(e *errorpb.Error) bool { return e.ReadIndexNotReady != nil }},
	{RegionUnready, func(e *errorpb.Error) bool { return e.ProposalInMergingMode != nil }},
	{RegionUnready, func(e *errorpb.Error) bool { return e.MaxTimestampNotSynced != nil }},
	{RegionUnready, func(e *errorpb.Error) bool { return e.RecoveryInProgress != nil }},
	{RegionUnready, func(e *errorpb.Error) bool { return e.DataIsNotReady != nil }},
}

// regionError converts a response's region error to ours.
func regionError(id cluster.RegionID, e *errorpb.Error) *RegionError {
	out := &RegionError{Region: id, Kind: RegionOther, Message: e.Message}
	for _, v := range regionErrorTable {
		if v.matches(e) {
			out.Kind = v.kind
			break
		}
	}
	if busy := e.ServerIsBusy; busy != nil {
		ms := min(saturate.To[int64](busy.BackoffMs), math.MaxInt64/int64(time.Millisecond))
		out.Backoff = time.Duration(ms) * time.Millisecond
	}
	if out.Message == "" { // TiKV sends FlashbackNotPrepared without a message
		out.Message = strings.TrimSpace(e.String())
	}
	out.Message = failure.Line(out.Message)
	return out
}

// alreadyWaiting reports whether a region error is the untyped one of a second WaitApply for a region.
func alreadyWaiting(e *errorpb.Error) bool {
	return e != nil && e.EpochNotMatch == nil && e.RegionNotFound == nil && e.StaleCommand == nil && e.NotLeader == nil
}
