package ebsdirecttest

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// The APIs.
const (
	listBlocks       = "ListSnapshotBlocks"
	listChanged      = "ListChangedBlocks"
	getBlock         = "GetSnapshotBlock"
	putBlock         = "PutSnapshotBlock"
	startSnapshot    = "StartSnapshot"
	completeSnapshot = "CompleteSnapshot"
)

// Server is the service of one account. It is safe for concurrent use.
type Server struct {
	account *ebstest.Server
	cfg     Config
	rules   Rules
	mux     *http.ServeMux
	secret  []byte // of tokens

	starting sync.Mutex // makes calls with one client token come one after the other

	mu      sync.Mutex // guards all below
	calls   map[string]int
	refused map[string]int
	buckets map[string]*bucket
	written map[cluster.SnapshotID]*written
	starts  map[string]start // by client token
	damage  []Damage
}

// New makes the service and lets the account serve it. Call it before the account starts.
func New(account *ebstest.Server, cfg Config) *Server {
	if cfg.Rules == nil {
		cfg.Rules = DefaultRules()
	}
	s := &Server{
		account: account, cfg: cfg, rules: *cfg.Rules, mux: http.NewServeMux(), secret: []byte(rand.Text()),
		calls: map[string]int{}, refused: map[string]int{}, buckets: map[string]*bucket{},
		written: map[cluster.SnapshotID]*written{}, starts: map[string]start{},
	}
	for pattern, api := range map[string]struct {
		name string
		run  func(*http.Request) (answer, error)
	}{
		"GET /snapshots/{id}/blocks":         {listBlocks, s.list},
		"GET /snapshots/{id}/changedblocks":  {listChanged, s.changed},
		"GET /snapshots/{id}/blocks/{index}": {getBlock, s.get},
		"PUT /snapshots/{id}/blocks/{index}": {putBlock, s.put},
		"POST /snapshots":                    {startSnapshot, s.start},
		"POST /snapshots/completion/{id}":    {completeSnapshot, s.complete},
	} {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, api.name, api.run) })
	}
	account.ServeDirect(s)
	return s
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request, name string, run func(*http.Request) (answer, error)) {
	strike := s.cfg.Faults.At("ebs." + name)
	if strike.Wait(r.Context()) != nil {
		return // stalled until the client went away
	}
	if strike != nil && strike.Position == fault.Before {
		code, reason, _ := strings.Cut(cmp.Or(strike.Code, "InternalServerException"), "/")
		write(w, refusal(code, reason, "refused by a fault").answer())
		return
	}
	s.wait(r.Context())
	a, err := s.admit(r, name, run)
	if err != nil {
		a = asRefusal(err).answer()
	}
	if strike != nil && strike.Position == fault.After {
		panic(http.ErrAbortHandler) // breaks the connection without an answer
	}
	write(w, a)
}

// wait takes the latency before the effect: a client that goes away does not stop it.
func (s *Server) wait(ctx context.Context) {
	l := s.rules.Latency
	if l.Most > 0 {
		_ = s.cfg.Clock.Sleep(ctx, l.Least+mathrand.N(l.Most-l.Least+1))
	}
}

// admit holds a call against the limits and permissions, and runs it.
func (s *Server) admit(r *http.Request, name string, run func(*http.Request) (answer, error)) (answer, error) {
	err := s.take(name, r.PathValue("id"))
	if permission := "ebs:" + name; err == nil && !s.account.Permits(permission) {
		err = refusal("AccessDeniedException", "", "not authorized to perform: %s", permission)
	}
	var a answer
	if err == nil {
		a, err = run(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[name]++
	if err != nil {
		s.refused[asRefusal(err).name()]++
	}
	return a, err
}

// Calls are the numbers of calls by API, those that were refused included.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// Refusals are the numbers of calls that were refused, by "Code" or "Code/REASON", those by faults left out.
func (s *Server) Refusals() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refused)
}

// Dollars is the price of all calls so far, by AWS's list for us-east-1.
func (s *Server) Dollars() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0.0
	for name, price := range prices() {
		sum += float64(s.calls[name]) * price / 1000
	}
	return sum
}

// Damage is what happens to an answer of GetSnapshotBlock on its way.
type Damage int

// The damages.
const (
	FlippedBit Damage = iota
	Short             // half of the data, announced as such
)

// DamageNext damages the next blocks that are read, each once.
func (s *Server) DamageNext(how ...Damage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damage = append(s.damage, how...)
}

func (s *Server) now() time.Time { return s.cfg.Clock.Now() }
