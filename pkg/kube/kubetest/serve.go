package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// bodyLimit is the real server's limit of a request body.
const bodyLimit = 3 << 20

// badGateway is the code of a fault that answers as a load balancer in front of the server does.
const badGateway = "BadGateway"

// call is one request that is being served.
type call struct {
	request
	http *http.Request
	body []byte
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		breakConnection(w)
		return
	}
	defer s.done.Done()
	// The body is read first: only then does net/http notice that the client went away.
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	if err != nil {
		return
	}
	if len(body) > bodyLimit {
		_, _ = io.Copy(io.Discard, r.Body) // or net/http lingers on the connection after Close
		writeError(w, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", bodyLimit)))
		return
	}
	if s.serveDiscovery(w, r) {
		return
	}
	route, ok := parseRoute(r)
	if !ok || !s.serves(route.resource.group) {
		http.Error(w, "404 page not found", http.StatusNotFound) // no Status body here, as in the real one
		return
	}
	c := call{request: route, http: r, body: body}
	s.note(&c)
	s.answer(w, c)
}

// answer serves a request whose object or list is known.
func (s *Server) answer(w http.ResponseWriter, c call) {
	strike := s.cfg.Faults.At(c.point())
	if strike != nil && strike.Position == fault.Before && strike.Code == badGateway {
		http.Error(w, "<html><body>502 Bad Gateway</body></html>", http.StatusBadGateway) // of a load balancer: no Status
		return
	}
	if strike != nil && strike.Position == fault.Before {
		writeError(w, faultError(c, strike.Code))
		return
	}
	if err := strike.Wait(c.http.Context()); err != nil {
		return
	}
	if err := s.restarting(c); err != nil {
		writeError(w, err)
		return
	}
	if !s.allowed(c.verb, c.permitted()) && c.resource.name != reviews {
		writeError(w, forbidden(c))
		return
	}
	if err := s.admit(c); err != nil {
		writeError(w, err)
		return
	}
	if c.verb == "watch" {
		s.watch(w, c)
		return
	}
	if c.subresource == logs {
		s.serveLog(w, c)
		return
	}
	if c.subresource == portForward {
		s.forward(w, c)
		return
	}
	answer, code, err := s.dispatch(c)
	if strike != nil && strike.Position == fault.After {
		breakConnection(w)
		return
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, code, answer)
}

// point is where the plan of faults is asked.
func (c call) point() string {
	if c.subresource == portForward {
		return "kube." + c.verb + ".pods." + portForward
	}
	return "kube." + c.verb + "." + c.resource.name
}

// note keeps the mutating calls; the name of a new object is in its body.
func (s *Server) note(c *call) {
	if !c.mutating() || c.http.URL.Query().Has("dryRun") {
		return
	}
	seen := *c
	if c.verb == "create" {
		if o, err := decode(c.body); err == nil {
			seen.name = meta(o).GetName()
		}
	}
	s.sawMutation(c.verb + " " + c.resource.name + " " + seen.target())
	if c.verb == "delete" {
		o, _ := c.deleteOptions() // a body that cannot be read is refused later
		s.sawDeletion(Deletion{Resource: c.resource.name, Target: seen.target(), Only: o.Preconditions})
	}
}

func (s *Server) dispatch(c call) (answer any, code int, err error) {
	code = http.StatusOK
	switch c.verb {
	case "get":
		answer, err = s.read(c)
	case "list":
		answer, err = s.readList(c)
	case "create":
		code = http.StatusCreated
		if c.resource.name == reviews {
			answer, err = s.review(c)
			break
		}
		answer, err = s.create(c)
	case "update":
		answer, err = s.update(c)
	case "patch":
		answer, err = s.patch(c)
	case "delete":
		answer, err = s.deleteOne(c)
	case "deletecollection":
		answer, err = s.deleteMany(c)
	}
	return answer, code, err
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// writeError answers with a Status body, as the real server does for every error.
func writeError(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err)
	errors.As(err, &status)
	body := status.ErrStatus
	body.Kind, body.APIVersion = "Status", "v1"
	if d := body.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(d.RetryAfterSeconds))
	}
	writeJSON(w, int(body.Code), body)
}

// breakConnection ends the connection without an answer.
func breakConnection(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	if conn, _, err := hijacker.Hijack(); err == nil {
		_ = conn.Close()
	}
}

func forbidden(c call) error {
	where := "at the cluster scope"
	if c.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", c.namespace)
	}
	return apierrors.NewForbidden(c.resource.groupResource(), c.name, fmt.Errorf(
		"User %q cannot %s resource %q in API group %q %s", "testbed", c.verb, c.permitted(), c.resource.group, where))
}

// faultError turns a fault's code, a reason of a Status, into the answer of the real server.
func faultError(c call, code string) error {
	gr := c.resource.groupResource()
	switch metav1.StatusReason(code) {
	case metav1.StatusReasonForbidden:
		return forbidden(c)
	case metav1.StatusReasonUnauthorized:
		return apierrors.NewUnauthorized("Unauthorized")
	case metav1.StatusReasonTooManyRequests:
		// A real server sends 1 s; 0 keeps client-go from waiting and trying again on its own.
		return apierrors.NewTooManyRequests("the server has received too many requests", 0)
	case metav1.StatusReasonServiceUnavailable:
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	case metav1.StatusReasonConflict:
		return apierrors.NewConflict(gr, c.name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case metav1.StatusReasonAlreadyExists:
		return apierrors.NewAlreadyExists(gr, c.name)
	case metav1.StatusReasonNotFound:
		return apierrors.NewNotFound(gr, c.name)
	case metav1.StatusReasonServerTimeout:
		return apierrors.NewServerTimeout(gr, c.verb, 0)
	case metav1.StatusReasonTimeout:
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case metav1.StatusReasonRequestEntityTooLarge:
		return apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	}
	return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
}
