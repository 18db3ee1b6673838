package tikvtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"google.golang.org/grpc"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Store is one TiKV process. All methods are safe for concurrent use.
type Store struct {
	cfg        Config
	opts       Options
	pd         PD
	net        *Network
	faults     *fault.Plan
	logf       func(format string, args ...any)
	id         uint64
	clusterID  uint64
	recovering bool
	bootID     uint64 // makes proposal ids of this run unlike those of other runs
	startedAt  time.Time
	listener   net.Listener
	server     *grpc.Server
	status     *http.Server // nil without a status port
	statusAddr string
	early      earlyApply
	data       *kvEngine
	raft       *raftWorker
	applier    *applyWorker
	reports    *reportQueue
	lease      lease
	imports    importGate
	recovery   recovery
	volume     volume
	maxTS      maxTS
	flushing   flushing
	batches    batches
	ownTS      struct{ async, onePhase atomic.Int64 }
	calls      callLog
	proposals  atomic.Uint64
	ignoreHold atomic.Bool
	blocked    sync.Map // ids of stores that this process sends nothing to

	mu     sync.RWMutex
	peers  map[uint64]*peer
	sorted []*peer // by region id; nil after a change

	cancel   context.CancelFunc
	workers  sync.WaitGroup
	graceful atomic.Bool
	done     chan struct{}
	failMu   sync.Mutex
	failure  error
}

// Start runs a store on its devices until Stop, Kill or a crash; ctx bounds only the start. An empty data
// device gets a store id from PD; one with an ident keeps its id. If PD is marked recovering the store starts
// in recovery mode and takes PD's cluster id; otherwise another cluster id is an error. A store that starts
// until PD is bootstrapped, waits for BootstrapCluster.
func Start(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{
		cfg: cfg, opts: cfg.Options.withDefaults(), pd: cfg.PD, net: cfg.Network, faults: cfg.Faults,
		logf: cfg.Logf, peers: map[uint64]*peer{}, reports: newReportQueue(), done: make(chan struct{}),
		startedAt: time.Now(),
	}
	if s.logf == nil {
		s.logf = func(string, ...any) {}
	}
	if s.net == nil {
		s.net = NewNetwork()
	}
	log, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("start tikv: %w", err)
	}
	s.configureEarlyApply()
	if err := s.listen(ctx); err != nil {
		return nil, fmt.Errorf("start tikv store %d: %w", s.id, err)
	}
	s.raft = newRaftWorker(s, log)
	s.applier = newApplyWorker(s, cfg.Seed)
	if err := s.run(ctx, log); err != nil {
		s.Kill()
		return nil, fmt.Errorf("start tikv store %d: %w", s.id, errors.Join(err, s.Err()))
	}
	return s, nil
}

// load reads the devices and settles who this store is.
func (s *Store) load(ctx context.Context) (*raftLog, error) {
	data, err := openKVEngine(s.cfg.Data)
	if err != nil {
		return nil, err
	}
	s.data = data
	log, err := openRaftLog(s.cfg.RaftLog)
	if err != nil {
		return nil, err
	}
	if err := s.identify(ctx, log.wal.fresh); err != nil {
		return nil, err
	}
	s.bootID = newRand(s.cfg.Seed+s.startedAt.UnixNano(), s.id).Uint64() << 24
	return log, nil
}

func (s *Store) listen(ctx context.Context) error {
	addr := s.cfg.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	s.listener = listener
	if s.cfg.TLS != nil {
		s.listener = &entrance{Listener: listener}
	}
	s.server = s.newServer()
	return s.listenStatus(ctx, listener.Addr().(*net.TCPAddr).IP.String()) //nolint:errcheck // it listens on TCP
}

// run starts the workers and makes the store known.
func (s *Store) run(ctx context.Context, log *raftLog) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the process outlives its start
	s.cancel = cancel
	s.workers.Add(1) // a store that crashes while it starts is not over before its start is
	defer s.workers.Done()
	if s.opts.Static {
		go s.supervise(life)
		s.goRun(func() { s.staticLoop(life) })
		s.goRun(func() { _ = s.server.Serve(s.listener) })
		return nil
	}
	states := s.data.states()
	for _, st := range states {
		s.addPeer(st.localState, st.applied, st.appliedTerm, false)
	}
	s.net.attach(s)
	s.goRun(func() { s.raft.run(life) })
	s.goRun(func() { s.applier.run(life) })
	s.goRun(func() { s.flushLoop(life) })
	go s.supervise(life)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(life, stop)() // a crash ends the start too
	if s.recovering {
		// What is committed is applied before anybody asks, as on a real store, whose start takes seconds.
		for _, st := range states {
			commit, p := log.commitOnDisk[st.region.Id], s.peer(st.region.Id)
			if p == nil {
				continue // its neighbour has taken it over already
			}
			if _, err := p.await(ctx, func(v peerView) bool { return v.applied >= commit || v.destroyed }); err != nil {
				return err
			}
		}
	}
	open := s.serve()
	if err := s.join(ctx); err != nil {
		return err
	}
	s.goRun(func() { s.heartbeatLoop(life) })
	if s.opts.ResolvedTSInterval > 0 && !s.recovering {
		s.goRun(func() { s.resolvedLoop(life) })
	}
	open()
	return nil
}

func (s *Store) goRun(fn func()) {
	s.workers.Add(1)
	go func() {
		defer s.workers.Done()
		fn()
	}()
}

// supervise ends the process when its life is over, for whatever reason.
func (s *Store) supervise(life context.Context) {
	<-life.Done()
	s.net.detach(s)
	s.server.Stop()
	_ = s.listener.Close()
	s.closeStatus()
	s.workers.Wait()
	if s.graceful.Load() {
		_ = s.data.flush(s.opts.CheckpointBytes)
		_ = s.raft.log.flush(s.opts.CheckpointBytes)
	}
	close(s.done)
}

// Stop ends the process in order: all that is applied is written to the devices first. It returns when the
// process is gone.
func (s *Store) Stop() {
	s.graceful.Store(true)
	s.Kill()
}

// Kill ends the process at once: what it had not written is lost. It returns when the process is gone.
func (s *Store) Kill() {
	s.cancel()
	<-s.done
}

// crash ends the process as a FATAL log line of TiKV does. It does not wait.
func (s *Store) crash(format string, args ...any) {
	err := fmt.Errorf("tikv store %d FATAL: "+format, append([]any{s.id}, args...)...)
	s.failMu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	s.failMu.Unlock()
	s.logf("%v", err)
	s.cancel()
}

// Done is closed when the process is gone.
func (s *Store) Done() <-chan struct{} { return s.done }

// Err is why the process crashed, or nil.
func (s *Store) Err() error {
	s.failMu.Lock()
	defer s.failMu.Unlock()
	return s.failure
}

// Addr is the address of the gRPC service, host:port.
func (s *Store) Addr() string { return s.listener.Addr().String() }

// ID is the store id.
func (s *Store) ID() uint64 { return s.id }

// ClusterID is the cluster id of the PD that the store belongs to.
func (s *Store) ClusterID() uint64 { return s.clusterID }

// Recovering reports whether the store was started in recovery mode. It stays so until a restart.
func (s *Store) Recovering() bool { return s.recovering }

// MutatingCalls lists the calls of the backup and restore services that changed something, in order.
func (s *Store) MutatingCalls() []string { return s.calls.list() }

// IgnoreLeaseForSplits makes the store break its promise: splits, leader transfers and log compaction continue
// under a prepare-snapshot lease.
func (s *Store) IgnoreLeaseForSplits(ignore bool) { s.ignoreHold.Store(ignore) }

// DropLease makes the store forget its prepare-snapshot lease, as a restart does.
func (s *Store) DropLease() { s.lease.finish(time.Now()) }

// SetImportRunning puts the store into import mode, as a running import does.
func (s *Store) SetImportRunning(running bool) { s.imports.running.Store(running) }

// addPeer registers a peer and has its raft group made.
func (s *Store) addPeer(state localState, applied, appliedTerm uint64, campaign bool) {
	p := newPeer(state, applied, appliedTerm, s.id)
	s.mu.Lock()
	s.peers[p.regionID] = p
	s.sorted = nil
	s.mu.Unlock()
	s.raft.post(raftTask{create: p, campaign: campaign})
}

func (s *Store) peer(region uint64) *peer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.peers[region]
}

// allPeers lists the peers by region id. The list is shared: it is not to be changed.
func (s *Store) allPeers() []*peer {
	s.mu.RLock()
	list := s.sorted
	s.mu.RUnlock()
	if list != nil {
		return list
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sorted = make([]*peer, 0, len(s.peers))
	for _, p := range s.peers {
		s.sorted = append(s.sorted, p)
	}
	slices.SortFunc(s.sorted, func(a, b *peer) int { return cmp.Compare(a.regionID, b.regionID) })
	return s.sorted
}

// regionEndingAt returns the region with this end key, or nil.
func (s *Store) regionEndingAt(key []byte) *metapb.Region {
	for _, p := range s.allPeers() {
		if r := p.look().region; string(r.EndKey) == string(key) {
			return r
		}
	}
	return nil
}

// flushLoop writes the data device now and then.
func (s *Store) flushLoop(ctx context.Context) {
	ticker := time.NewTicker(s.opts.FlushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.data.flush(s.opts.CheckpointBytes); err != nil {
			s.crash("data: %v", err)
			return
		}
	}
}
