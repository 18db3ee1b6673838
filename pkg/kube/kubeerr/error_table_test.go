package kubeerr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestWrap_HostileText_IsOneLineWithoutControls(t *testing.T) {
	t.Parallel()
	err := Wrap(apierrors.NewBadRequest("no\x1b[2J\nforged line"), "read pod", "x")
	require.EqualError(t, err, "read pod of x: no[2J forged line")
}

func TestWrap_EachReason_HasItsKind(t *testing.T) {
	t.Parallel()
	gr := schema.GroupResource{Resource: "pods"}
	cause := errors.New("cause")
	for name, c := range map[string]struct {
		err  error
		want failure.Kind
	}{
		"unauthorized":       {apierrors.NewUnauthorized("no"), failure.Denied},
		"forbidden":          {apierrors.NewForbidden(gr, "x", errors.New(`User "u" cannot get resource "pods"`)), failure.Denied},
		"not admitted":       {apierrors.NewForbidden(gr, "x", cause), failure.Unready},
		"quota":              {apierrors.NewForbidden(gr, "x", errors.New("exceeded quota: storage")), failure.Unready},
		"policy":             {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "ValidatingAdmissionPolicy 'sizes' denied request"}}, failure.Unready},
		"no such namespace":  {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "tidb"), failure.Unready},
		"not found":          {apierrors.NewNotFound(gr, "x"), failure.NotFound},
		"no such resource":   {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", gr, "x", "404 page not found", 0, true), failure.Unready},
		"already exists":     {apierrors.NewAlreadyExists(gr, "x"), failure.Conflict},
		"conflict":           {apierrors.NewConflict(gr, "x", cause), failure.Conflict},
		"gone":               {apierrors.NewGone("gone"), failure.Limited}, //nolint:staticcheck // servers still send it
		"expired":            {apierrors.NewResourceExpired("old"), failure.Limited},
		"too many requests":  {apierrors.NewTooManyRequests("slow down", 1), failure.Limited},
		"server timeout":     {apierrors.NewServerTimeout(gr, "get", 1), failure.Limited},
		"timeout":            {apierrors.NewTimeoutError("slow", 1), failure.Limited},
		"unavailable":        {apierrors.NewServiceUnavailable("down"), failure.Limited},
		"invalid":            {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), failure.Usage},
		"bad request":        {apierrors.NewBadRequest("bad"), failure.Usage},
		"method not allowed": {apierrors.NewMethodNotSupported(gr, "get"), failure.Usage},
		"too large":          {apierrors.NewRequestEntityTooLargeError("3 MiB"), failure.Usage},
		"internal":           {apierrors.NewInternalError(cause), failure.Unknown},
		"not acceptable":     {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotAcceptable}}, failure.Usage},
		"media type":         {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonUnsupportedMediaType}}, failure.Usage},
		"new reason":         {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: "Brand-New"}}, failure.Unknown},
		"deadline":           {fmt.Errorf("get: %w", context.DeadlineExceeded), failure.Limited},
		"cancelled":          {fmt.Errorf("get: %w", context.Canceled), failure.Unknown},
		"own limiter":        {errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"), failure.Limited},
		"refused connection": {&url.Error{Op: "Get", Err: errors.New("connection refused")}, failure.Unknown},
		"bad certificate":    {&url.Error{Op: "Get", Err: errors.New("x509: certificate signed by unknown authority")}, failure.Denied},
		"credential plugin":  {&url.Error{Op: "Get", Err: errors.New("getting credentials: exec: \"aws\": not found")}, failure.Denied},
		"known already":      {failure.New(failure.Corrupt, "", "", "x"), failure.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Wrap(c.err, "read pod", "x")
			assert.Equal(t, c.want, failure.KindOf(err))
			assert.ErrorIs(t, err, c.err)
			if c.want == failure.Denied || c.want == failure.Unready {
				assert.NotEmpty(t, failure.HintOf(err))
			}
		})
	}
	assert.NoError(t, Wrap(nil, "read", "x"))
}
