package kube

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// refusalPatience is how long a refusal must persist: a restarting API server refuses connections for a second and
	// then, until its RBAC caches are full, everything for 0.2 s, and EKS's authenticator may be down for some seconds.
	refusalPatience    = 5 * time.Second
	minRefusalInterval = 100 * time.Millisecond
	maxRefusalInterval = time.Second
)

// refusalTransport retries requests that are answered with 401 or 403 until the refusal has persisted for its patience,
// and then confirms it. It retries refused connections for as long, then returns the error. All requests of this
// package may be retried: creations are by name, updates by version, deletions by uid. A request's timeout also bounds
// its retries.
type refusalTransport struct {
	next     http.RoundTripper
	patience time.Duration
	// confirm asks the API server whether the caller has the refused permission.
	confirm func(context.Context, permission, string) (bool, error)
}

// RoundTrip implements http.RoundTripper.
func (t *refusalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	end := time.Now().Add(t.patience)
	isOptional := typed.IsOptional(r.Context())
	for interval := minRefusalInterval; ; interval = min(2*interval, maxRefusalInterval) {
		response, err := t.next.RoundTrip(r)
		late := time.Now().After(end)
		switch {
		case err == nil && refused(response):
			if isOptional {
				return response, nil
			}
			if late {
				return t.confirmed(r, response)
			}
			_ = response.Body.Close()
		case late || !utilnet.IsConnectionRefused(err):
			return response, err
		}
		if err := wait.For(r.Context(), interval); err != nil {
			return nil, err
		}
		if r, err = repeated(r); err != nil {
			return nil, err
		}
	}
}

// refused reports whether authentication or RBAC refused the request; RBAC's text always names the missing permission.
// Admission also answers with 403, but that is not transient, and no role helps.
func refused(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return true
	case http.StatusForbidden:
		body, _ := io.ReadAll(response.Body) // a truncated body is shown as far as it goes
		_ = response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body))
		return bytes.Contains(body, []byte(kubeerr.RBACText))
	}
	return false
}

// confirmed returns the refusal if a SelfSubjectAccessReview agrees with it, else a retryable error.
func (t *refusalTransport) confirmed(r *http.Request, response *http.Response) (*http.Response, error) {
	p, namespace, known := requested(r)
	if !known || p.resource == accessReviews || response.StatusCode == http.StatusUnauthorized {
		return response, nil
	}
	allowed, err := t.confirm(r.Context(), p, namespace)
	if err == nil && !allowed || failure.Is(err, failure.Denied) {
		return response, nil
	}
	_ = response.Body.Close()
	if err != nil {
		return nil, failure.Wrap(err, failure.Limited, "confirm a refusal", p.String())
	}
	return nil, failure.New(failure.Limited, "ask the API server", p.String(),
		"refused with %s although the role allows it", response.Status).
		WithHint("run it again: an API server refuses allowed requests while it starts")
}

// repeated returns the same request with its body rewound.
func repeated(r *http.Request) (*http.Request, error) {
	again := r.Clone(r.Context())
	if r.GetBody == nil {
		return again, nil
	}
	body, err := r.GetBody()
	again.Body = body
	return again, err
}

// requested reads the verb, the resource and the namespace from a request.
func requested(r *http.Request) (p permission, namespace string, ok bool) {
	_, path, found := strings.Cut(r.URL.Path, "/api/v1/")
	if !found {
		_, path, found = strings.Cut(r.URL.Path, "/apis/")
		p.group, path, _ = strings.Cut(path, "/")
		_, path, _ = strings.Cut(path, "/") // the version
	}
	if !found {
		return p, "", false
	}
	parts := strings.Split(path, "/")
	if len(parts) >= 3 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	p.resource = parts[0]
	named := len(parts) > 1
	switch r.Method {
	case http.MethodGet:
		p.verb = "list"
		if named {
			p.verb = "get"
		}
	case http.MethodPost:
		p.verb = "create"
	case http.MethodPut:
		p.verb = "update"
	case http.MethodPatch:
		p.verb = "patch"
	case http.MethodDelete:
		p.verb = "delete"
	}
	return p, namespace, p.verb != "" && len(parts) <= 2
}
