package kubeerr

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/tisnap/tisnap/pkg/failure"
)

// class is what an error of the API server means to a caller.
type class struct {
	kind failure.Kind
	hint string
}

// reasons maps the reasons of a Status. Any other is Unknown, which is retried until the step's deadline.
func reasons() map[metav1.StatusReason]class {
	const slow = "run it again when the API server is less busy"
	const invalid = "report this as a bug: the API server rejects the request"
	return map[metav1.StatusReason]class{
		metav1.StatusReasonUnauthorized: {failure.Denied, "renew the credentials of the kubeconfig"},
		metav1.StatusReasonForbidden: {
			failure.Denied, "grant the verb on the resource named in the message",
		},
		metav1.StatusReasonNotFound:              {failure.NotFound, ""},
		metav1.StatusReasonAlreadyExists:         {failure.Conflict, ""},
		metav1.StatusReasonConflict:              {failure.Conflict, "run it again: another client changed the object"},
		metav1.StatusReasonGone:                  {failure.Limited, slow},
		metav1.StatusReasonExpired:               {failure.Limited, slow},
		metav1.StatusReasonTooManyRequests:       {failure.Limited, slow},
		metav1.StatusReasonServerTimeout:         {failure.Limited, slow},
		metav1.StatusReasonTimeout:               {failure.Limited, slow},
		metav1.StatusReasonServiceUnavailable:    {failure.Limited, slow},
		metav1.StatusReasonInvalid:               {failure.Usage, invalid},
		metav1.StatusReasonBadRequest:            {failure.Usage, invalid},
		metav1.StatusReasonMethodNotAllowed:      {failure.Usage, invalid},
		metav1.StatusReasonNotAcceptable:         {failure.Usage, invalid},
		metav1.StatusReasonUnsupportedMediaType:  {failure.Usage, invalid},
		metav1.StatusReasonRequestEntityTooLarge: {failure.Usage, "make the object smaller"},
		metav1.StatusReasonInternalError:         {failure.Unknown, ""},
	}
}

// Wrap gives an error of the API server, or of the connection to it, its kind and hint. nil stays nil; errors that have
// a kind keep it.
func Wrap(err error, op, target string) error {
	if err == nil {
		return nil
	}
	var known *failure.Error
	if errors.As(err, &known) {
		return failure.Annotate(err, op, target)
	}
	v := classify(err)
	return &failure.Error{Op: op, Target: target, Kind: v.kind, Hint: v.hint, Err: failure.Remote(err)}
}

// Usage is the error for an unusable kubeconfig.
func Usage(err error) error {
	return failure.New(failure.Usage, "read kubeconfig", "", "%w", err).
		WithHint("use a kubeconfig and context that work with kubectl (--kubeconfig, --context)")
}

// RBACText is in `User "x" cannot get resource "pods" …`, in JSON and in protobuf. RBAC's refusals have it, those of
// admission do not.
const RBACText = `" cannot `

func classify(err error) class {
	if errors.Is(err, context.Canceled) {
		return class{failure.Unknown, ""}
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		if v, found := admission(status.Status()); found {
			return v
		}
		if noSuchResource(status.Status()) {
			return class{failure.Unready, "install TiDB Operator, or use the Kubernetes cluster that has it"}
		}
		return reasons()[status.Status().Reason]
	}
	// The last condition is for client-go's rate limiter, whose error has no type.
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) ||
		strings.Contains(err.Error(), "would exceed context deadline") {
		return class{failure.Limited, "check the connection to the API server and run it again"}
	}
	if strings.Contains(err.Error(), "getting credentials") || strings.Contains(err.Error(), "x509: ") {
		return class{failure.Denied, "make `kubectl get nodes` work with this kubeconfig first"}
	}
	var request *url.Error
	if errors.As(err, &request) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) {
		return class{failure.Unknown, "check that the kubeconfig's API server is up and reachable"}
	}
	return class{failure.Unknown, ""}
}

// admissionTexts are in the API server's rejections of objects, with status 403, 404 or 422. The policy's message is
// the cause, and no role helps.
func admissionTexts() []struct {
	text string
	class
} {
	type row = struct {
		text string
		class
	}
	return []row{
		{"exceeded quota", class{
			failure.Unready, "raise the ResourceQuota named in the message, or free some of it",
		}},
		{"because it is being terminated", class{
			failure.Unready, "wait until the namespace is gone and recreate it, or use another one",
		}},
		{"admission webhook", class{
			failure.Unready,
			"make the webhook named in the message allow the object; RBAC is not the cause",
		}},
		{"ValidatingAdmissionPolicy", class{
			failure.Unready,
			"make the policy named in the message allow the object; RBAC is not the cause",
		}},
		{"violates PodSecurity", class{
			failure.Unready, "make the namespace's pod security level allow the object",
		}},
	}
}

// admission recognizes a rejection by a quota, a policy, a webhook or the state of the namespace.
func admission(s metav1.Status) (class, bool) {
	if s.Status == metav1.StatusSuccess {
		return class{}, false
	}
	for _, row := range admissionTexts() {
		if strings.Contains(s.Message, row.text) {
			return row.class, true
		}
	}
	if s.Reason == metav1.StatusReasonNotFound && s.Details != nil && s.Details.Kind == "namespaces" {
		return class{failure.Unready, "create the namespace: kubectl create namespace " + s.Details.Name}, true
	}
	if s.Reason == metav1.StatusReasonForbidden && !strings.Contains(s.Message, RBACText) {
		return class{failure.Unready, "fix what the message names; RBAC is not the cause"}, true
	}
	return class{}, false
}

// NotServed reports whether an error means that the API server does not serve the resource: its
// CustomResourceDefinition is not installed.
func NotServed(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && noSuchResource(status.Status())
}

// noSuchResource distinguishes the 404 of an unserved path, such as that of a CRD that is not installed, from that of a
// missing object: only the latter comes with a Status; for the former client-go makes one up and marks it in its
// causes.
func noSuchResource(s metav1.Status) bool {
	return s.Reason == metav1.StatusReasonNotFound && s.Details != nil &&
		slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
			return c.Type == metav1.CauseTypeUnexpectedServerResponse
		})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
