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
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// refusalPatience is how long a refusal has to stay: an API server that is restarted refuses connections for a
	// second and everything for 0.2 s, until its RBAC caches are full, and EKS' authenticator may be away for a few
	// seconds.
	refusalPatience    = 5 * time.Second
	minRefusalInterval = 100 * time.Millisecond
	maxRefusalInterval = time.Second
)

// refusalTransport repeats requests that are answered with 401 or 403 until the refusal has stayed for its patience,
// and then has it confirmed. A request whose connection is refused is repeated for as long, and its error is returned
// then. All requests of this package may be repeated: creations are by name, updates by version, deletions by uid. The
// limit of a request bounds the repetitions too.
type refusalTransport struct {
	next     http.RoundTripper
	patience time.Duration
	// confirm asks the API server whether the caller may do what was refused.
	confirm func(context.Context, permission, string) (bool, error)
}

// optional is a context's key: what is asked for with it is worth no patience, as nothing depends on it.
type optional struct{}

// RoundTrip implements http.RoundTripper.
func (t *refusalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	end := time.Now().Add(t.patience)
	if r.Context().Value(optional{}) != nil {
		return t.next.RoundTrip(r)
	}
	for interval := minRefusalInterval; ; interval = min(2*interval, maxRefusalInterval) {
		response, err := t.next.RoundTrip(r)
		late := time.Now().After(end)
		switch {
		case err == nil && refused(response):
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

// refused reports whether the answer is a refusal of authentication or of RBAC, whose text always says what the user
// cannot do. Admission answers with 403, too: that does not pass by itself, and no role helps.
func refused(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return true
	case http.StatusForbidden:
		body, _ := io.ReadAll(response.Body) // of a body that ends early, what is there is shown
		_ = response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body))
		return bytes.Contains(body, []byte(kubeerr.RBACText))
	}
	return false
}

// confirmed returns the refusal if a SelfSubjectAccessReview agrees with it; if not, an error that is worth
// another try.
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
		"refused with %s though the role allows it", response.Status).
		WithHint("run it again: the API server refuses what it allows while it starts")
}

// repeated is the same request with its body from the beginning.
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
