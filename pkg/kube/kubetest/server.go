package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/clientcmd"

	clients "github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

// Config of a Server. The zero value is a server without faults, at real speed, whose kubeconfig names
// the namespace "default".
type Config struct {
	Faults    *fault.Plan     // asked at "kube.<verb>.<resource>", as kube.create.persistentvolumes
	Clock     timescale.Clock // of creation timestamps and events
	Namespace string          // default namespace of the kubeconfig
	Listen    string          // host:port, or "" for a free port of 127.0.0.1
	// Connect reaches a port of a pod's processes, for port forwards; nil refuses.
	Connect func(ctx context.Context, namespace, pod string, port int) (net.Conn, error)
}

// Server is the API server. It is safe for concurrent use.
type Server struct {
	*Objects

	cfg   Config
	store *store
	uid   string // of this cluster

	mu       sync.Mutex
	closing  bool // requests are no longer taken
	denied   map[permission]bool
	refusals []Refusal
	missing  map[string]bool // namespaces that do not exist
	// uninstalled are the API groups that are not served.
	uninstalled map[string]bool
	unknown     map[string][]string // fields that definitions lack, by resource
	mutating    []string
	deletions   []Deletion
	podLogs     map[string]podLog // by namespace/pod
	forwards    map[*forwarding]bool
	barrier     *Barrier // nil: none
	// refusing and away are until when a restart has its effects.
	refusing, away time.Time

	listener net.Listener
	http     *http.Server
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// permission is a verb on a resource; "*" is any.
type permission struct{ verb, resource string }

// New makes a server that listens from Start on; its objects can be set up before.
func New(cfg Config) *Server {
	if cfg.Namespace == "" {
		cfg.Namespace = "default"
	}
	s := &Server{cfg: cfg, uid: string(uuid.NewUUID()), store: newStore(cfg.Clock), denied: map[permission]bool{}, missing: map[string]bool{}, uninstalled: map[string]bool{}, unknown: map[string][]string{}, podLogs: map[string]podLog{}, forwards: map[*forwarding]bool{}}
	s.Objects = &Objects{state: s.store, log: s.SetPodLog}
	return s
}

// Start listens and serves until Close or until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	address := s.cfg.Listen
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	ctx, stop := context.WithCancel(ctx)
	s.listener, s.stop = listener, stop
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
	}
	s.done.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			stop()
		}
	})
	s.done.Go(func() {
		<-ctx.Done()
		_ = s.http.Close()
	})
	return nil
}

// Close breaks all connections and waits until no request is being served. It may be called twice.
func (s *Server) Close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
	s.done.Wait()
}

// enter counts a request that is being served, unless the server is closing.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.done.Add(1)
	return true
}

// URL is the server's base URL; valid after Start.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Kubeconfig is a kubeconfig file that points to the server; valid after Start.
func (s *Server) Kubeconfig() []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: testbed
clusters:
- name: testbed
  cluster:
    server: %s
users:
- name: testbed
  user: {}
contexts:
- name: testbed
  context:
    cluster: testbed
    user: testbed
    namespace: %s
`, s.URL(), s.cfg.Namespace)
}

// WriteKubeconfig writes Kubeconfig to a file that only its owner can read.
func (s *Server) WriteKubeconfig(path string) error { return os.WriteFile(path, s.Kubeconfig(), 0o600) }

// Client returns a client of the server over a transport, without client-go's own limit of 5 calls a second.
func (s *Server) Client(over http.RoundTripper) (*clients.Client, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return clients.New(config, &http.Client{Transport: over})
}

// MutatingCalls lists the writes that came over the network, in order, as "create persistentvolumes x" or
// "delete pods ns/x"; refused ones too, dry runs not. Writes of the Operator stand-in are not among them.
func (s *Server) MutatingCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mutating...)
}

// Deletion is a call that deletes an object, or several.
type Deletion struct {
	Resource, Target string
	Only             *metav1.Preconditions
}

// Deletions lists those among MutatingCalls.
func (s *Server) Deletions() []Deletion {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deletions)
}

func (s *Server) sawDeletion(d Deletion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletions = append(s.deletions, d)
}

func (s *Server) sawMutation(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mutating = append(s.mutating, call)
}
