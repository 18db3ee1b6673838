package flashstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
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
}

// Store is one store. Its regions' states outlive a restart. All methods are safe for concurrent use.
type Store struct {
	cfg   Config
	slots chan struct{}

	mu      sync.Mutex
	regions map[uint64]*state
	address string // kept over a restart, as a pod's name is
	server  *grpc.Server
	run     sync.WaitGroup

	calls Calls
}

// state is what a store has of a region.
type state struct {
	region   *metapb.Region
	leads    bool   // lost by a restart
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
	recoverdata.RegisterRecoverDataServer(server, &recoverService{s: s})
	s.mu.Lock()
	s.address, s.server = listener.Addr().String(), server
	s.mu.Unlock()
	s.run.Go(func() { _ = server.Serve(listener) })
	header := &pdpb.RequestHeader{ClusterId: s.cfg.PD.ClusterID()}
	put, err := s.cfg.PD.PutStore(ctx, &pdpb.PutStoreRequest{Header: header, Store: &metapb.Store{
		Id: s.cfg.ID, Address: s.Address(), Version: "8.5.8", StartTimestamp: time.Now().Unix(),
	}})
	if err == nil && put.GetHeader().GetError() != nil {
		err = fmt.Errorf("%s", put.GetHeader().GetError().GetMessage())
	}
	if err == nil {
		_, err = s.cfg.PD.StoreHeartbeat(ctx, &pdpb.StoreHeartbeatRequest{Header: header, Stats: &pdpb.StoreStats{
			StoreId: s.cfg.ID, Capacity: 1 << 40, Available: 1 << 39,
		}})
	}
	if err != nil {
		s.Stop()
		return fmt.Errorf("start store %d: %w", s.cfg.ID, err)
	}
	return nil
}

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
	server := s.server
	for _, st := range s.regions {
		st.leads = false
	}
	s.mu.Unlock()
	server.Stop()
	s.run.Wait()
}

// Restart starts the process again at the same address.
func (s *Store) Restart(ctx context.Context) error {
	s.Stop()
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

// work takes one of the slots for the time of a call. It is not done if the caller goes away first.
func (s *Store) work(ctx context.Context) error {
	open := s.calls.open.Add(1)
	defer s.calls.open.Add(-1)
	for most := s.calls.Most.Load(); open > most && !s.calls.Most.CompareAndSwap(most, open); most = s.calls.Most.Load() {
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	begin := time.Now()
	defer func() {
		s.calls.Busy.Add(int64(time.Since(begin)))
		<-s.slots
	}()
	timer := time.NewTimer(s.cfg.Cost)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
