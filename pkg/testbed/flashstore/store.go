package flashstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/debugpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"

	"github.com/tisnap/tisnap/pkg/wait"
)

// PD is what a store reports to PD, in process.
type PD interface {
	PutStore(context.Context, *pdpb.PutStoreRequest) (*pdpb.PutStoreResponse, error)
	StoreHeartbeat(context.Context, *pdpb.StoreHeartbeatRequest) (*pdpb.StoreHeartbeatResponse, error)
	ReportRegion(context.Context, *pdpb.RegionHeartbeatRequest) (*pdpb.RegionHeartbeatResponse, error)
	ClusterID() uint64
}

// Config is one store.
type Config struct {
	ID      uint64
	PD      PD
	Regions []*metapb.Region // that it has a peer of, by id; shared with the other stores and never changed
	// Slots is how many calls are worked on at once; the others wait in order. Cost is what one takes.
	Slots int
	Cost  time.Duration
	// Walk is how long the store's volume takes to read what the flashback of one region walks; it reads for one region
	// after the other, whatever the slots. Zero is no time.
	Walk time.Duration
	// Term and Index are where the raft logs end; zero is 6 and 10. Those of the regions that Longer names have one entry more.
	Term, Index uint64
	Longer      func(region uint64) bool
	// FirstHeartbeat passes from the start of a process to its first report to PD, and Election until regions have leaders
	// outside recovery mode.
	FirstHeartbeat, Election time.Duration
}

// Store is one store. Its regions' states outlive a restart. All methods are safe for concurrent use.
type Store struct {
	cfg   Config
	slots chan struct{}

	mu      sync.Mutex
	regions map[uint64]*state
	normal  bool      // not in recovery mode
	reading time.Time // until when the volume has to read for calls that came before
	address string    // kept over a restart, as a pod's name is
	server  *grpc.Server
	end     context.CancelFunc
	run     sync.WaitGroup

	calls Calls
}

// state is what a store has of a region.
type state struct {
	region   *metapb.Region
	leads    bool   // lost by a restart
	led      bool   // when recovery mode ended
	prepared uint64 // start ts, or 0
	start    uint64 // of the flashback that was done
	commit   uint64
}

// Calls counts what a store worked on, refusals left out.
type Calls struct {
	Prepares, Flashbacks atomic.Int64
	// Busy is for how many nanoseconds slots were taken: more than calls times cost on a machine that is loaded.
	Busy atomic.Int64
	// Last is when the last of them ended, in Unix nanoseconds.
	Last atomic.Int64
	// Most is how many calls were at the store at once, waiting ones included.
	Most, open atomic.Int64
}

// Start serves the store and registers it with PD.
func Start(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Index == 0 {
		cfg.Term, cfg.Index = 6, 10
	}
	s := &Store{cfg: cfg, slots: make(chan struct{}, cfg.Slots), regions: make(map[uint64]*state, len(cfg.Regions)), address: "127.0.0.1:0"}
	for _, r := range cfg.Regions {
		s.regions[r.Id] = &state{region: r}
	}
	return s, s.serve(ctx)
}

func (s *Store) serve(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("start store %d: %w", s.cfg.ID, err)
	}
	server := grpc.NewServer(grpc.MaxConcurrentStreams(1024)) // TiKV's grpc-concurrent-stream
	tikvpb.RegisterTikvServer(server, &kvService{s: s})
	debugpb.RegisterDebugServer(server, &debugService{s: s})
	process, end := context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	normal := s.normal
	s.address, s.server, s.end = listener.Addr().String(), server, end
	s.mu.Unlock()
	if normal {
		backup.RegisterBackupServer(server, &backupService{s: s})
		s.run.Go(func() { s.elect(process) })
	} else {
		recoverdata.RegisterRecoverDataServer(server, &recoverService{s: s})
	}
	s.run.Go(func() { _ = server.Serve(listener) })
	if err := s.register(ctx); err != nil {
		s.Stop()
		return fmt.Errorf("start store %d: %w", s.cfg.ID, err)
	}
	s.run.Go(func() { s.heartbeats(process) })
	return nil
}

// register makes the store known to PD, which has it up after its first report.
func (s *Store) register(ctx context.Context) error {
	header := &pdpb.RequestHeader{ClusterId: s.cfg.PD.ClusterID()}
	put, err := s.cfg.PD.PutStore(ctx, &pdpb.PutStoreRequest{Header: header, Store: &metapb.Store{
		Id: s.cfg.ID, Address: s.Address(), Version: "8.5.8", StartTimestamp: time.Now().Unix(),
	}})
	if err == nil && put.GetHeader().GetError() != nil {
		err = fmt.Errorf("%s", put.GetHeader().GetError().GetMessage())
	}
	if err == nil && s.cfg.FirstHeartbeat == 0 {
		err = s.heartbeat(ctx)
	}
	return err
}

func (s *Store) heartbeat(ctx context.Context) error {
	_, err := s.cfg.PD.StoreHeartbeat(ctx, &pdpb.StoreHeartbeatRequest{
		Header: &pdpb.RequestHeader{ClusterId: s.cfg.PD.ClusterID()},
		Stats:  &pdpb.StoreStats{StoreId: s.cfg.ID, Capacity: 1 << 40, Available: 1 << 39},
	})
	return err
}

// heartbeatInterval is TiKV's own.
const heartbeatInterval = 10 * time.Second

// heartbeats reports the store until its process ends. One that fails is repeated as the next.
func (s *Store) heartbeats(ctx context.Context) {
	for pause := s.cfg.FirstHeartbeat; wait.For(ctx, pause) == nil; pause = heartbeatInterval {
		_ = s.heartbeat(ctx)
	}
}

// ID is the store's id.
func (s *Store) ID() uint64 { return s.cfg.ID }

// Address is where the store serves.
func (s *Store) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Counts is what the store has worked on so far.
func (s *Store) Counts() *Calls { return &s.calls }

// Stop ends the process at once: calls under way are not answered and leaders are gone.
func (s *Store) Stop() {
	s.mu.Lock()
	server, end := s.server, s.end
	for _, st := range s.regions {
		if !s.normal {
			st.led = st.leads
		}
		st.leads = false
	}
	s.mu.Unlock()
	end()
	server.Stop()
	s.run.Wait()
}

// Restart starts the process again at the same address.
func (s *Store) Restart(ctx context.Context) error {
	s.Stop()
	return s.serve(ctx)
}

// LeaveRecovery starts the process, which has been stopped, outside recovery mode at the same address. The regions that
// it led get it as their leader once their elections are over.
func (s *Store) LeaveRecovery(ctx context.Context) error {
	s.mu.Lock()
	s.normal = true
	s.mu.Unlock()
	return s.serve(ctx)
}

// Undone counts the regions that this store leads and that are not flashed back with these timestamps, or that
// are still blocked.
func (s *Store) Undone(start, commit uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, st := range s.regions {
		if st.leads && (st.start != start || st.commit != commit || st.prepared != 0) {
			n++
		}
	}
	return n
}
