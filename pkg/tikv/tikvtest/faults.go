package tikvtest

import (
	"context"
	"strconv"
	"sync"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// errConnectionLost is what a client sees of a call whose answer is lost.
var errConnectionLost = status.Error(codes.Unavailable, "error reading from server: EOF")

// strike is what a fault does to a call. The zero value does nothing.
type strike struct {
	refuse error // answer this and do nothing
	region *errorpb.Error
	lose   bool // do it, but the answer is lost
}

// strikeAt asks the plan at "tikv.<store id>.<name>" and waits out what has to be waited for. A rule's Code is
// a gRPC code's name ("Unavailable") or a region error's field name ("server_is_busy").
func (s *Store) strikeAt(ctx context.Context, name string) strike {
	if s.faults == nil {
		return strike{}
	}
	f := s.faults.At("tikv." + strconv.FormatUint(s.id, 10) + "." + name)
	if f == nil {
		return strike{}
	}
	if err := f.Wait(ctx); err != nil {
		return strike{refuse: status.FromContextError(err).Err()}
	}
	switch f.Position {
	case fault.After:
		return strike{lose: true}
	case fault.Before:
		if e := regionErrorOf(f.Code); e != nil {
			return strike{region: e}
		}
		return strike{refuse: status.Error(codeOf(f.Code), "injected fault")}
	case fault.Stall, fault.Slow: // was waited for
	}
	return strike{}
}

// answer is the lost connection if the strike is one.
func (k strike) answer() error {
	if k.lose {
		return errConnectionLost
	}
	return nil
}

// before is for calls without region errors: it returns what to refuse with, or nil.
func (k strike) before() error {
	if k.refuse == nil && k.region != nil {
		return status.Error(codes.Unavailable, k.region.Message)
	}
	return k.refuse
}

func codeOf(name string) codes.Code {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == name {
			return c
		}
	}
	return codes.Unavailable
}

// regionErrorOf makes the region error with a field name, or nil.
func regionErrorOf(name string) *errorpb.Error {
	switch name {
	case "server_is_busy":
		return serverIsBusy("injected fault", 0)
	case "not_leader":
		return notLeader(peerView{region: &metapb.Region{}})
	case "epoch_not_match":
		return &errorpb.Error{Message: "injected fault", EpochNotMatch: &errorpb.EpochNotMatch{}}
	case "region_not_found":
		return regionNotFound(0)
	case "stale_command":
		return staleCommand()
	case "flashback_not_prepared":
		return flashbackNotPrepared(0)
	case "flashback_in_progress":
		return flashbackInProgress(&metapb.Region{})
	}
	return nil
}

// callLog remembers the names of calls. The zero value is ready.
type callLog struct {
	mu    sync.Mutex
	names []string
}

func (l *callLog) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = append(l.names, name)
}

func (l *callLog) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.names...)
}
