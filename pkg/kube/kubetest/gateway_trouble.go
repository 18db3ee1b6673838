package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TroubleKind is what goes wrong at an API server.
type TroubleKind string

// The kinds of trouble. The first ones are answers, the last ones happen to the server.
const (
	TroubleUnauthorized TroubleKind = "401"
	TroubleForbidden    TroubleKind = "403"
	TroubleConflict     TroubleKind = "409" // of a write
	TroubleBusy         TroubleKind = "429 with Retry-After"
	TroubleBusyNow      TroubleKind = "429 without Retry-After"
	TroubleInternal     TroubleKind = "500"
	TroubleLost         TroubleKind = "done, and the answer lost"
	TroubleCut          TroubleKind = "answer cut in the middle"
	TroubleStale        TroubleKind = "stale list"
	TroubleRestart      TroubleKind = "API server killed and started again"
	TroubleRotated      TroubleKind = "token rotated"
)

// Troubles lists the kinds.
func Troubles() []TroubleKind {
	return []TroubleKind{
		TroubleUnauthorized, TroubleForbidden, TroubleConflict, TroubleBusy, TroubleBusyNow, TroubleInternal,
		TroubleLost, TroubleCut, TroubleStale, TroubleRestart, TroubleRotated,
	}
}

// Trouble begins with the nth request from now on that it concerns. It lasts for a time, or, if that is 0, for one request;
// below 0 it lasts until the gateway is calmed.
type Trouble struct {
	Kind TroubleKind
	Nth  int
	For  time.Duration
}

// String is for a person.
func (t Trouble) String() string {
	s := fmt.Sprintf("%s, from request %d on", t.Kind, t.Nth)
	if t.For != 0 {
		s += " for " + t.For.String()
	}
	if t.For < 0 {
		s = strings.Replace(s, " for "+t.For.String(), ", and it stays", 1)
	}
	return s
}

// active is trouble that waits or is under way.
type active struct {
	Trouble
	seen  int
	until time.Time // zero before it begins
	over  bool
}

// answer is a list that was read before.
type answer struct {
	header http.Header
	body   []byte
}

// Trouble has these go wrong from now on, beside those before.
func (g *Gateway) Trouble(all ...Trouble) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range all {
		g.troubles = append(g.troubles, &active{Trouble: t})
	}
}

// Calm ends all trouble, and returns what was met.
func (g *Gateway) Calm() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	met := g.met
	g.met, g.troubles = nil, nil
	return met
}

// next is the trouble of a request, if any.
func (g *Gateway) next(r *http.Request) (TroubleKind, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, t := range g.troubles {
		if t.over || !t.Kind.concerns(r) {
			continue
		}
		if t.seen++; t.seen < t.Nth {
			continue
		}
		if t.until.IsZero() {
			t.until = now.Add(t.For)
			g.met = append(g.met, string(t.Kind)+" at "+r.Method+" "+r.URL.Path)
		}
		t.over = t.For == 0 || t.For > 0 && now.After(t.until) || t.Kind == TroubleRestart || t.Kind == TroubleRotated
		if t.For > 0 && now.After(t.until) {
			continue
		}
		return t.Kind, t.For
	}
	return "", 0
}

// concerns reports whether a request can meet this trouble.
func (k TroubleKind) concerns(r *http.Request) bool {
	switch k {
	case TroubleConflict:
		return r.Method == http.MethodPut || r.Method == http.MethodPatch
	case TroubleStale:
		return isList(r)
	case TroubleCut:
		return r.Method == http.MethodGet
	case TroubleUnauthorized, TroubleForbidden, TroubleBusy, TroubleBusyNow, TroubleInternal, TroubleLost, TroubleRestart, TroubleRotated:
	}
	return true
}

func isList(r *http.Request) bool {
	route, ok := parseRoute(r)
	return ok && route.verb == "list"
}

// mark is a context's key: what is to be done to the answer.
type mark struct{}

// errLost has the reverse proxy call its ErrorHandler, which breaks the connection.
var errLost = errors.New("the answer is lost")

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	kind, lasts := g.next(r)
	switch kind {
	case TroubleRestart:
		g.restart(max(lasts, 100*time.Millisecond))
		breakConnection(w)
		return
	case TroubleRotated:
		if err := g.rotate(); err != nil {
			breakConnection(w)
			return
		}
	case TroubleStale:
		if g.stale(w, r) {
			return
		}
	case "", TroubleLost, TroubleCut:
	default:
		writeError(w, kind.refusal())
		return
	}
	g.mu.Lock()
	valid := r.Header.Get("Authorization") == "Bearer "+g.token
	g.mu.Unlock()
	if !valid {
		writeError(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), mark{}, kind)))
}

// refusal is the answer of a kind that is one.
func (k TroubleKind) refusal() error {
	of := schema.GroupResource{Resource: "pods"}
	switch k {
	case TroubleUnauthorized:
		return apierrors.NewUnauthorized("Unauthorized")
	case TroubleForbidden:
		return apierrors.NewForbidden(of, "", errors.New(`User "gateway" cannot get resource "pods" in API group "" at the cluster scope`))
	case TroubleConflict:
		return apierrors.NewConflict(of, "x", errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case TroubleBusy:
		return apierrors.NewTooManyRequests("the server has received too many requests and has asked us to try again later", 1)
	case TroubleBusyNow:
		return apierrors.NewTooManyRequests("the server has received too many requests", 0)
	default:
		return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	}
}

// stale answers with the list that the same request got before, as a server does whose cache is behind.
func (g *Gateway) stale(w http.ResponseWriter, r *http.Request) bool {
	g.mu.Lock()
	old, ok := g.lists[r.URL.RequestURI()]
	g.mu.Unlock()
	if !ok {
		return false
	}
	for name, values := range old.header {
		w.Header()[name] = values
	}
	_, err := w.Write(old.body)
	return err == nil
}

// change keeps answers to lists, and loses or cuts what is to be.
func (g *Gateway) change(answered *http.Response) error {
	r := answered.Request
	kind, _ := r.Context().Value(mark{}).(TroubleKind)
	if kind == TroubleLost {
		return errLost
	}
	if answered.StatusCode != http.StatusOK || r.Method != http.MethodGet || r.URL.Query().Has("watch") || strings.HasSuffix(r.URL.Path, "/log") {
		return nil
	}
	body, err := io.ReadAll(answered.Body)
	if err != nil {
		return err
	}
	_ = answered.Body.Close()
	if isList(r) {
		g.mu.Lock()
		g.lists[r.URL.RequestURI()] = answer{answered.Header.Clone(), body}
		g.mu.Unlock()
	}
	if kind == TroubleCut {
		body = body[:len(body)/2] // its stated length is still all of it
	}
	answered.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}
