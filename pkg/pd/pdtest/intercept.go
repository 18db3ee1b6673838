package pdtest

import (
	"context"
	"path"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// brokenConn is what a gRPC client sees when the connection breaks before the answer.
func brokenConn() error {
	return status.Error(codes.Unavailable, "error reading from server: EOF")
}

// strike asks the fault plan. An error is a refusal; lost is to be returned after the work instead of the answer.
func (s *Server) strike(ctx context.Context, point string) (lost, refused error) {
	strike := s.cfg.Faults.At(point)
	if strike == nil {
		return nil, nil
	}
	if err := strike.Wait(ctx); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	switch strike.Position {
	case fault.Before:
		return nil, status.Error(grpcCode(strike.Code), refusalText(strike.Code))
	case fault.After:
		return brokenConn(), nil
	case fault.Stall, fault.Slow: // was waited for
	}
	return nil, nil
}

// grpcCode reads a code's name; anything else is PD's own text under Unknown, and nothing is Unavailable.
func grpcCode(name string) codes.Code {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == name {
			return c
		}
	}
	if name == "" {
		return codes.Unavailable
	}
	return codes.Unknown
}

func refusalText(code string) string {
	if code == "" {
		return "[PD:server:ErrServerNotStarted]server not started"
	}
	return code
}

// servingBy is nil if the member is the leader and serves.
func (s *Server) servingBy(m *member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.electLocked()
	if s.leader < 0 {
		return status.Error(codes.Unavailable, "no leader")
	}
	if s.leader != m.index {
		return status.Error(codes.Unavailable, "not leader")
	}
	return s.servingLocked()
}

type withHeader interface{ GetHeader() *pdpb.RequestHeader }

func (s *Server) checkHeader(h *pdpb.RequestHeader) error {
	if h.GetClusterId() != s.disk.clusterID {
		return status.Errorf(codes.FailedPrecondition, "mismatch cluster id, need %d but got %d", s.disk.clusterID, h.GetClusterId())
	}
	return nil
}

// openToAll are the calls that followers answer and that need no cluster id.
func openToAll(method string) bool {
	switch method {
	case "GetMembers", "GetClusterInfo", "Check", "Get", "MemberList", "Range", "Put", "DeleteRange", "Txn":
		return true
	}
	return false
}

func mutates(method string, req any) (string, bool) {
	switch r := req.(type) {
	case *pdpb.UpdateServiceGCSafePointRequest:
		return method + " " + string(r.GetServiceId()), true
	case *pdpb.UpdateGCSafePointRequest, *pdpb.ScatterRegionRequest:
		return method, true
	}
	return "", false
}

func (m *member) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	s := m.server
	s.handlers.begin()
	defer s.handlers.end()
	method := path.Base(info.FullMethod)
	lost, err := s.strike(ctx, "pd."+method)
	if err != nil {
		return nil, err
	}
	if !openToAll(method) {
		if err := s.servingBy(m); err != nil {
			return nil, err
		}
		if h, ok := req.(withHeader); ok {
			if err := s.checkHeader(h.GetHeader()); err != nil {
				return nil, err
			}
		}
	}
	answer, err := handle(ctx, req)
	if call, ok := mutates(method, req); ok && err == nil {
		s.record(call)
	}
	if err == nil && lost != nil {
		return nil, lost
	}
	return answer, err
}

func (m *member) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	s := m.server
	s.handlers.begin()
	defer s.handlers.end()
	if method := path.Base(info.FullMethod); method == "Tso" || method == "RegionHeartbeat" {
		if err := s.servingBy(m); err != nil {
			return err
		}
	}
	return handle(srv, stream)
}
