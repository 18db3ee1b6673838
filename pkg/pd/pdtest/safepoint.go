package pdtest

import (
	"context"
	"math"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const gcWorker = "gc_worker"

// serviceSafePoint is one service's; expiredAt is in Unix seconds, MaxInt64 for never.
type serviceSafePoint struct {
	expiredAt int64
	ts        uint64
}

// GetGCSafePoint is the cluster's GC safe point.
func (s *Server) GetGCSafePoint(context.Context, *pdpb.GetGCSafePointRequest) (*pdpb.GetGCSafePointResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return &pdpb.GetGCSafePointResponse{Header: s.ok(), SafePoint: s.disk.gcSafePoint}, nil
}

// UpdateGCSafePoint raises the GC safe point and answers the one in force; a lower one changes nothing.
func (s *Server) UpdateGCSafePoint(_ context.Context, req *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.disk.gcSafePoint = max(s.disk.gcSafePoint, req.GetSafePoint())
	return &pdpb.UpdateGCSafePointResponse{Header: s.ok(), NewSafePoint: s.disk.gcSafePoint}, nil
}

// UpdateServiceGCSafePoint sets or, for a TTL of 0, removes a service's safe point and answers the lowest of
// all. One below the lowest is not accepted, and the answer does not show it.
func (s *Server) UpdateServiceGCSafePoint(_ context.Context, req *pdpb.UpdateServiceGCSafePointRequest) (*pdpb.UpdateServiceGCSafePointResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	service, now := string(req.GetServiceId()), s.now().Unix()
	if service == gcWorker && req.GetTTL() != math.MaxInt64 {
		return nil, status.Error(codes.Unknown, "cannot remove or expire the service safe point of gc_worker")
	}
	if service == "" {
		return nil, status.Error(codes.Unknown, "service id of service safepoint cannot be empty")
	}
	if req.GetTTL() <= 0 {
		delete(s.disk.services, service)
	}
	lowest, id := s.lowestLocked()
	if req.GetTTL() > 0 && req.GetSafePoint() >= lowest.ts {
		point := serviceSafePoint{expiredAt: math.MaxInt64, ts: req.GetSafePoint()}
		if math.MaxInt64-now > req.GetTTL() {
			point.expiredAt = now + req.GetTTL()
		}
		s.disk.services[service] = point
		lowest, id = s.lowestLocked()
	}
	return &pdpb.UpdateServiceGCSafePointResponse{
		Header: s.ok(), ServiceId: []byte(id), TTL: lowest.expiredAt - now, MinSafePoint: lowest.ts,
	}, nil
}

// lowestLocked is the lowest safe point that has not expired. gc_worker's is made when it is first asked for.
func (s *Server) lowestLocked() (serviceSafePoint, string) {
	services := s.servicesLocked()
	if _, found := services[gcWorker]; !found {
		services[gcWorker] = serviceSafePoint{expiredAt: math.MaxInt64}
	}
	lowest, id := services[gcWorker], gcWorker
	for service, p := range services {
		if p.ts < lowest.ts {
			lowest, id = p, service
		}
	}
	return lowest, id
}

func (s *Server) servicesLocked() map[string]serviceSafePoint {
	now := s.now().Unix()
	for service, p := range s.disk.services {
		if p.expiredAt < now {
			delete(s.disk.services, service)
		}
	}
	return s.disk.services
}

// SafePoint is a service safe point as tests see it.
type SafePoint struct {
	TS        uint64
	ExpiredAt time.Time // zero: never
}

// ServiceSafePoints are the service safe points in force, gc_worker's among them.
func (s *Server) ServiceSafePoints() map[string]SafePoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	points := map[string]SafePoint{}
	for service, p := range s.servicesLocked() {
		point := SafePoint{TS: p.ts}
		if p.expiredAt != math.MaxInt64 {
			point.ExpiredAt = time.Unix(p.expiredAt, 0)
		}
		points[service] = point
	}
	return points
}

// SetGCSafePoint does what TiDB's GC worker does: gc_worker's service safe point and the GC safe point
// become ts, without asking the other services.
func (s *Server) SetGCSafePoint(ts uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk.services[gcWorker] = serviceSafePoint{expiredAt: math.MaxInt64, ts: ts}
	s.disk.gcSafePoint = ts
}

// GCSafePoint is the cluster's GC safe point.
func (s *Server) GCSafePoint() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk.gcSafePoint
}
