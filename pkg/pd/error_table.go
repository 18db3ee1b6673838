package pd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/wait"
)

// class is what an error of PD means to a caller.
type class struct {
	kind failure.Kind
	hint string
}

const (
	hintReach  = "check that PD is running and reachable at its client port"
	hintInside = "PD's addresses are DNS names that resolve only inside the Kubernetes cluster: run there, as a Job, " +
		"or use --via port-forward, or map them with --resolve or --address-map"
	hintForward = "grant create pods/portforward, or use --via direct"
	hintVersion = "use a PD of version 7.5, 8.1 or 8.5"
	hintTLS     = "check that --ca, --cert and --key, or the secret NAME-cluster-client-secret, belong to the cluster"
	hintStart   = "start the cluster's TiKV stores first"
	hintCluster = "check that all PD addresses belong to the cluster"
)

// textTable has PD's own codes and texts, from an HTTP body, a gRPC status or a response header. It is consulted
// first, and its first matching row wins.
func textTable() []struct {
	text string
	class
} {
	type row = struct {
		text string
		class
	}
	return []row{
		{"no such host", class{failure.Limited, hintInside}},
		{`cannot create resource "pods/portforward"`, class{failure.Denied, hintForward}},
		{"[PD:cluster:ErrNotBootstrapped]", class{failure.Unready, hintStart}},
		{"NOT_BOOTSTRAPPED", class{failure.Unready, hintStart}},
		{"cluster is not bootstrapped", class{failure.Unready, hintStart}},
		{"[PD:server:ErrServerNotStarted]", class{failure.Limited, hintReach}},
		{"[PD:scheduler:ErrSchedulerNotFound]", class{
			failure.NotFound, "list the schedulers; PD has none until its coordinator has started",
		}},
		{"[PD:operator:ErrAddOperator]", class{
			failure.Limited, "wait until PD's other operator on the region has ended",
		}},
		{"[PD:core:ErrRegionNotFound]", class{failure.NotFound, ""}},
		{"need to clean up TTL first", class{failure.Conflict, "wait until the TTL config has expired, or drop it"}},
		{"unsupported ttl config", class{failure.Usage, hintVersion}},
		{"can only recover alloc id when recovering mark marked", class{
			failure.Unready, "set PD's snapshot-recovering mark first",
		}},
		{"[PD:tso:ErrResetUserTimestamp]", class{
			failure.Conflict, "compare PD's clock with the data's largest timestamp",
		}},
		{"mismatch cluster id", class{failure.Conflict, hintCluster}},
		{"unmatched cluster id", class{failure.Conflict, hintCluster}},
		{"cluster id does not match", class{failure.Conflict, hintCluster}},
		{"INCOMPATIBLE_VERSION", class{failure.Unready, hintVersion}},
		{"etcdserver: leader changed", class{failure.Limited, hintReach}}, // status 500, on a write
		{"etcdserver: request timed out", class{failure.Limited, hintReach}},
		{"no leader", class{failure.Limited, hintReach}},
		{"not leader", class{failure.Limited, hintReach}},
		{"[PD:apiutil:ErrRedirect", class{failure.Limited, hintReach}},
		{"[PD:tso:", class{failure.Limited, hintReach}},
		{"failed to get cluster id", class{failure.Limited, hintReach}},
		{"[PD:client:", class{failure.Limited, hintReach}},
	}
}

// statusTable is for HTTP errors whose text is not in textTable.
func statusTable() map[int]class {
	return map[int]class{
		http.StatusBadRequest:         {failure.Usage, ""},
		http.StatusUnauthorized:       {failure.Denied, hintTLS},
		http.StatusForbidden:          {failure.Denied, ""},
		http.StatusNotFound:           {failure.NotFound, hintVersion},
		http.StatusMethodNotAllowed:   {failure.Unready, hintVersion},
		http.StatusRequestTimeout:     {failure.Limited, hintReach},
		http.StatusTooManyRequests:    {failure.Limited, ""},
		http.StatusBadGateway:         {failure.Limited, hintReach},
		http.StatusServiceUnavailable: {failure.Limited, hintReach},
		http.StatusGatewayTimeout:     {failure.Limited, hintReach},
	}
}

// codeTable is for gRPC errors whose text is not in textTable.
func codeTable() map[codes.Code]class {
	return map[codes.Code]class{
		codes.Unavailable:        {failure.Limited, hintReach},
		codes.DeadlineExceeded:   {failure.Limited, hintReach},
		codes.ResourceExhausted:  {failure.Limited, ""},
		codes.Aborted:            {failure.Limited, ""},
		codes.Unauthenticated:    {failure.Denied, hintTLS},
		codes.PermissionDenied:   {failure.Denied, hintTLS},
		codes.Unimplemented:      {failure.Unready, hintVersion},
		codes.InvalidArgument:    {failure.Usage, ""},
		codes.NotFound:           {failure.NotFound, ""},
		codes.FailedPrecondition: {failure.Unready, ""},
	}
}

// classify looks err up in the tables. An error in none of them is Unknown.
func classify(err error) class {
	text := err.Error()
	for _, row := range textTable() {
		if strings.Contains(text, row.text) {
			return row.class
		}
	}
	var refused *statusError
	if errors.As(err, &refused) {
		return statusTable()[refused.status]
	}
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		alert     tls.AlertError
		record    tls.RecordHeaderError
	)
	if errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid) ||
		errors.As(err, &alert) || errors.As(err, &record) || strings.Contains(text, "x509:") ||
		strings.Contains(text, "tls:") {
		return class{failure.Denied, hintTLS}
	}
	if st, ok := status.FromError(err); ok {
		return codeTable()[st.Code()]
	}
	if isTransport(err) {
		return class{failure.Limited, hintReach}
	}
	return class{}
}

// translate gives err an operation, a target, a kind and a hint. If ctx ended, its error is the cause.
func translate(ctx context.Context, err error, op, target string) error {
	if err == nil {
		return nil
	}
	if fenced.Refused(err) {
		return failure.Annotate(err, op, target)
	}
	if status.Code(err) == codes.DeadlineExceeded {
		wait.ForDeadline(ctx)
	}
	if ctx.Err() != nil {
		return failure.Wrap(ctx.Err(), failure.Unknown, op, target)
	}
	v := classify(err)
	if status.Code(err) == codes.DeadlineExceeded { // not ctx's own
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return &failure.Error{Op: op, Target: target, Kind: v.kind, Hint: v.hint, Err: failure.Remote(err)}
}
