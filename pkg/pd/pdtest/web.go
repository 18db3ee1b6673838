package pdtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

const (
	api                = "/pd/api/v1"
	errNotBootstrapped = "[PD:cluster:ErrNotBootstrapped]TiKV cluster not bootstrapped, please start TiKV first"
	errNotStarted      = "[PD:server:ErrServerNotStarted]server not started"
)

// request is a call whose body was read.
type request struct {
	*http.Request
	body []byte
}

// fields is the JSON object in the body; an empty body has none.
func (r *request) fields() (map[string]any, error) {
	m := map[string]any{}
	if len(r.body) == 0 {
		return m, nil
	}
	return m, json.Unmarshal(r.body, &m)
}

// answer is a route's answer. A nil body is an empty one; a rawText is sent as it is, anything else as JSON.
type answer struct {
	status  int // 0 is 200
	body    any
	compact bool   // JSON on one line
	call    string // what was changed, for MutatingCalls; "" is nothing
}

type rawText string

func refuse(status int, text string) answer { return answer{status: status, body: text} }

// route is one call of the HTTP API. Handlers run with the state locked.
type route struct {
	pattern string
	point   func(*request) string
	cluster bool // needs a bootstrapped cluster
	handle  func(*request) answer
}

func named(point string) func(*request) string { return func(*request) string { return "pd." + point } }

// routes is a member's HTTP service; followers forward to the leader, which here is the same state.
func (m *member) routes() http.Handler {
	s := m.server
	mux := http.NewServeMux()
	for _, list := range [][]route{s.schedulingRoutes(), s.topologyRoutes(), s.adminRoutes(), s.memberRoutes(), s.stateRoutes()} {
		for _, rt := range list {
			mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
		}
	}
	return mux
}

func (s *Server) serve(rt route, w http.ResponseWriter, r *http.Request) {
	s.handlers.begin()
	defer s.handlers.end()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req := &request{Request: r, body: body}
	strike := s.cfg.Faults.At(rt.point(req))
	if err := strike.Wait(r.Context()); err != nil {
		hangUp(w)
		return
	}
	if strike != nil && strike.Position == fault.Before {
		write(w, refusalOf(strike.Code))
		return
	}
	a := s.dispatch(rt, req)
	if a.call != "" {
		s.record(a.call)
	}
	if strike != nil && strike.Position == fault.After {
		hangUp(w)
		return
	}
	write(w, a)
}

func (s *Server) dispatch(rt route, req *request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.electLocked()
	switch {
	case s.leader < 0:
		return answer{status: http.StatusServiceUnavailable, body: rawText("no leader\n")}
	case s.now().Before(s.readyAt):
		return refuse(http.StatusInternalServerError, errNotStarted)
	case rt.cluster && !s.disk.bootstrapped:
		return refuse(http.StatusInternalServerError, errNotBootstrapped)
	}
	return rt.handle(req)
}

// refusalOf makes a fault's code an answer: a number is an HTTP status, a text is PD's own under 500.
func refusalOf(code string) answer {
	if n, err := strconv.Atoi(code); err == nil && n >= 400 && n < 600 {
		return refuse(n, http.StatusText(n))
	}
	if code == "" {
		code = errNotStarted
	}
	return refuse(http.StatusInternalServerError, code)
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}

func write(w http.ResponseWriter, a answer) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	var out bytes.Buffer
	switch body := a.body.(type) {
	case nil:
	case rawText:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		out.WriteString(string(body))
	default:
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		enc := json.NewEncoder(&out)
		if !a.compact {
			enc.SetIndent("", "  ")
		}
		if err := enc.Encode(body); err != nil {
			a.status = http.StatusInternalServerError
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(out.Bytes())
}
