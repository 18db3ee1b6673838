package pdtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

const (
	balanceLeader = "balance-leader-scheduler"
	// operatorTimeout is how long PD keeps a transfer-leader step going.
	operatorTimeout = 10 * time.Second
)

// operator is what PD is doing with a region. Transfers of leadership and remove-peer do something.
type operator struct {
	name    string
	region  uint64
	to      *metapb.Peer // nil: nothing is sent
	remove  uint64       // store whose peer goes; 0 for none
	created time.Time
	status  pdpb.OperatorStatus
	moves   bool // by MovePeer: its caller ends it
}

func (o *operator) String() string {
	return fmt.Sprintf("%s {region %d} (kind:leader, createAt:%s, currentStep:0, steps:[0:{%s}], timeout:[%s])",
		o.name, o.region, o.created.UTC().Format(time.RFC3339Nano), o.name, operatorTimeout)
}

// scheduleLocked decides what a region's leader has to do: its operator, or one of balance-leader's.
func (s *Server) scheduleLocked(r *region) *pdpb.TransferLeader {
	op := s.runningLocked(r.meta.GetId())
	if op != nil && op.to != nil && op.to.GetStoreId() == r.leader.GetStoreId() {
		s.endLocked(op, pdpb.OperatorStatus_SUCCESS)
		op = nil
	}
	if op == nil {
		op = s.balanceLocked(r)
	}
	if op == nil || op.to == nil {
		return nil
	}
	return &pdpb.TransferLeader{Peer: op.to, Peers: []*metapb.Peer{op.to}}
}

// addLocked makes an operator the region's.
func (s *Server) addLocked(op *operator) {
	s.mem.operators[op.region] = op
	if op.status == pdpb.OperatorStatus_RUNNING {
		s.mem.running[op.region] = op
	}
}

func (s *Server) endLocked(op *operator, as pdpb.OperatorStatus) {
	op.status = as
	delete(s.mem.running, op.region)
}

// MovePeer makes the region's operator one whose steps the caller takes, as those of PD's move-peer: PD has one operator for
// a region at a time, so no other moves its leader until done is called. It is false if the region has one.
func (s *Server) MovePeer(region uint64) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runningLocked(region) != nil {
		return nil, false
	}
	op := &operator{name: "move-peer", region: region, created: s.now(), status: pdpb.OperatorStatus_RUNNING, moves: true}
	s.addLocked(op)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.runningLocked(region) == op {
			s.endLocked(op, pdpb.OperatorStatus_SUCCESS)
		}
	}, true
}

// runningLocked is the region's operator if it runs; one that took too long ends here.
func (s *Server) runningLocked(regionID uint64) *operator {
	op := s.mem.running[regionID]
	if op != nil && !op.moves && s.now().Sub(op.created) > operatorTimeout {
		s.endLocked(op, pdpb.OperatorStatus_TIMEOUT)
		return nil
	}
	return op
}

func (s *Server) allRunningLocked() []*operator {
	var running []*operator
	for _, id := range sortedIDs(s.mem.running) {
		if op := s.runningLocked(id); op != nil {
			running = append(running, op)
		}
	}
	return running
}

// balanceLocked is balance-leader: it moves a leader to the store with the fewest, unless it is paused or
// its limit is used up. It does not ask whether the cluster is recovering; the real one does not either.
func (s *Server) balanceLocked(r *region) *operator {
	i := slices.IndexFunc(s.schedulersLocked(), func(sch Scheduler) bool {
		return sch.Name == balanceLeader && sch.ResumeAt.IsZero()
	})
	if i < 0 {
		return nil
	}
	running := s.allRunningLocked()
	if float64(len(running)) >= s.numberConfigLocked("schedule.leader-schedule-limit") {
		return nil
	}
	leaders := maps.Clone(s.disk.regions.leaders)
	for _, op := range running {
		// What is on its way counts as arrived, or all regions would run to one store.
		if moved := s.disk.regions.byID[op.region]; op.to != nil && moved != nil && moved.leader != nil {
			leaders[moved.leader.GetStoreId()]--
			leaders[op.to.GetStoreId()]++
		}
	}
	from := r.leader.GetStoreId()
	var to *metapb.Peer
	for _, p := range r.meta.GetPeers() {
		if p.GetStoreId() != from && s.canLeadLocked(r, p) && (to == nil || leaders[p.GetStoreId()] < leaders[to.GetStoreId()]) {
			to = p
		}
	}
	if to == nil || leaders[from]-leaders[to.GetStoreId()] < 2 {
		return nil
	}
	op := &operator{name: "balance-leader", region: r.meta.GetId(), to: to, created: s.now(), status: pdpb.OperatorStatus_RUNNING}
	s.addLocked(op)
	return op
}

func (s *Server) canLeadLocked(r *region, p *metapb.Peer) bool {
	store := s.disk.stores[p.GetStoreId()]
	if p.GetRole() != metapb.PeerRole_Voter || store == nil || s.stateName(store) != "Up" {
		return false
	}
	same := func(other *metapb.Peer) bool { return other.GetId() == p.GetId() }
	return !slices.ContainsFunc(r.pending, same) &&
		!slices.ContainsFunc(r.down, func(d *pdpb.PeerStats) bool { return same(d.GetPeer()) })
}

// addOperatorLocked makes an operator as POST operators does. It returns the status and PD's refusal, or "".
func (s *Server) addOperatorLocked(name string, regionID, store uint64) (int, string) {
	r := s.disk.regions.byID[regionID]
	if r == nil {
		return 500, fmt.Sprintf("[PD:core:ErrRegionNotFound]region %d not found", regionID)
	}
	if s.runningLocked(regionID) != nil {
		return 500, "[PD:operator:ErrAddOperator]failed to add operator, maybe already have one"
	}
	op := &operator{name: name, region: regionID, created: s.now(), status: pdpb.OperatorStatus_RUNNING}
	switch name {
	case "scatter-region":
		// Scattering is accepted and has nothing to do: peers do not move here.
		op.status = pdpb.OperatorStatus_SUCCESS
	case "transfer-leader":
		i := slices.IndexFunc(r.meta.GetPeers(), func(p *metapb.Peer) bool { return p.GetStoreId() == store })
		if i < 0 {
			return 500, fmt.Sprintf("region has no voter in store %d", store)
		}
		op.to = r.meta.GetPeers()[i]
	case "remove-peer":
		return s.removePeerLocked(r, store)
	default:
		return 400, "unknown operator"
	}
	s.addLocked(op)
	s.pushLocked(r, op)
	return 0, ""
}

// pushLocked informs the leader's store at once if it holds a heartbeat stream; others hear at the next heartbeat.
func (s *Server) pushLocked(r *region, op *operator) {
	if r.leader == nil || op.to == nil {
		return
	}
	select {
	case s.mem.streams[r.leader.GetStoreId()] <- &pdpb.RegionHeartbeatResponse{
		Header: s.ok(), RegionId: r.meta.GetId(), RegionEpoch: r.meta.GetRegionEpoch(), TargetPeer: r.leader,
		TransferLeader: &pdpb.TransferLeader{Peer: op.to, Peers: []*metapb.Peer{op.to}},
	}:
	default:
	}
}

func sortedIDs[V any](m map[uint64]V) []uint64 {
	ids := make([]uint64, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
