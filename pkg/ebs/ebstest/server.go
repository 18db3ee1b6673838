package ebstest

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Server is one account in one region of a World. It is safe for concurrent use.
type Server struct {
	cfg   Config
	rules Rules

	direct   http.Handler // of the EBS direct APIs; nil for none
	http     *http.Server
	listener net.Listener
	cancel   context.CancelFunc
	serving  sync.WaitGroup

	world     *World
	mu        *sync.Mutex // of the world; guards all below
	random    *rand.Rand
	instances map[cluster.InstanceID]*instance
	volumes   map[cluster.VolumeID]*volume
	snapshots map[cluster.SnapshotID]*snapshot
	tokens    map[string]tokenUse
	buckets   map[string]*bucketState
	denied    map[string]bool
	keys      map[string]keyUse // of KMS, by what calls name them
	aliases   map[string]string // keys of KMS by their aliases
	chosenKey string            // the default key for EBS; "" is the one that AWS made for the account
	encrypts  bool              // by default: also copies of unencrypted snapshots
	mutating  []string
	refused   []Refused
	cuts      []Cut
	modifying []*modification // whose parameters do not hold yet
	copies    []*snapshot     // by CopySnapshot that are pending, by age
	copied    []Copy
	archiving []*snapshot // whose archival has not ended
	// permitted is all that is allowed; nil allows all that is not denied.
	permitted  []Statement
	vanishNext int // volumes that are accepted and then disappear
}

// New makes an account without instances, in a world of its own. It listens only after Start.
func New(cfg Config) *Server { return NewWorld(cfg).servers[0] }

func newServer(w *World, cfg Config) *Server {
	cfg.Region = cmp.Or(cfg.Region, "us-west-2")
	cfg.Account = cmp.Or(cfg.Account, "123456789012")
	if len(cfg.Zones) == 0 {
		for _, letter := range "abc" {
			cfg.Zones = append(cfg.Zones, cluster.Zone(cfg.Region+string(letter)))
		}
	}
	if cfg.Rules == nil {
		cfg.Rules = QuickRules()
	}
	return &Server{
		cfg: cfg, rules: *cfg.Rules, world: w, mu: &w.mu,
		random:    rand.New(rand.NewPCG(cfg.Seed, 0xeb5)),
		instances: map[cluster.InstanceID]*instance{},
		volumes:   map[cluster.VolumeID]*volume{},
		snapshots: map[cluster.SnapshotID]*snapshot{},
		tokens:    map[string]tokenUse{},
		buckets:   map[string]*bucketState{},
		denied:    map[string]bool{},
		keys:      map[string]keyUse{},
		aliases:   map[string]string{},
	}
}

// Start listens on a free port of 127.0.0.1. Close ends it.
func (s *Server) Start() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.listener, s.cancel = listener, cancel
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	s.serving.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel()
		}
	})
	return nil
}

// Close ends all connections, stalled calls included, and waits for the listener. The state stays readable.
func (s *Server) Close() {
	if s.http == nil {
		return
	}
	s.cancel()
	_ = s.http.Close() // nothing to save: the connections are cut on purpose
	s.serving.Wait()
}

// URL is the endpoint for AWS_ENDPOINT_URL.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Region is the account's region.
func (s *Server) Region() string { return s.cfg.Region }

// Account is the 12-digit account number.
func (s *Server) Account() string { return s.cfg.Account }

// MutatingCalls lists the calls that could change something and were not dry runs, in the order of
// arrival, as "Action target". Refused ones are in it.
func (s *Server) MutatingCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mutating...)
}

// Refused is a call that EC2 answered with an error of its own, not with one of a fault.
type Refused struct{ Action, Code string }

// Refusals lists them in the order of their answers, dry runs left out.
func (s *Server) Refusals() []Refused {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Refused(nil), s.refused...)
}

func (s *Server) now() time.Time { return s.cfg.Clock.Now() }

// draw takes a duration out of a span. The caller holds the lock.
func (s *Server) draw(span Span) time.Duration {
	if span.Most <= span.Least {
		return span.Least
	}
	return span.Least + time.Duration(s.random.Int64N(int64(span.Most-span.Least)+1))
}
