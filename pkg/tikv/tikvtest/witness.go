package tikvtest

import (
	"fmt"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"go.etcd.io/raft/v3/raftpb"
)

// A witness is a voter that has the log and no data. Its raft priority is lower than the others', so that it is elected
// only if its log is longer than that of who votes for it; it then brings the others up to date, answers every request
// with IsWitness, and leads until the leader is moved. Source: tests/integrations/raftstore/test_witness.rs of TiKV
// (test_witness_election_priority, test_witness_leader_down, test_witness_conf_change).

// isWitness reports whether the region's peer with the id is a witness.
func isWitness(r *metapb.Region, id uint64) bool {
	member := peerByID(r, id)
	return member != nil && member.IsWitness
}

func onWitness(region uint64) *errorpb.Error {
	return &errorpb.Error{Message: fmt.Sprintf("region %d is on a witness", region), IsWitness: &errorpb.IsWitness{RegionId: region}}
}

// asVoted is a message as raft is to see it, which knows no priorities: the log of a witness that is a candidate counts
// as empty where it is not longer than the peer's own.
func (w *raftWorker) asVoted(p *peer, m raftpb.Message) raftpb.Message {
	region := p.look().region
	if m.Type != raftpb.MsgVote && m.Type != raftpb.MsgPreVote || region == nil || isWitness(region, p.id) || !isWitness(region, m.From) {
		return m
	}
	if m.Index <= w.log.region(p.regionID).last() {
		m.Index, m.LogTerm = 0, 0
	}
	return m
}
