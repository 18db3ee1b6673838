package tikvtest

import (
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
)

// ProposeMerge is Merge from the moment on at which it has found no lease; it returns what becomes of the proposal.
func (s *Store) ProposeMerge(source, target uint64) *errorpb.Error {
	from, to := s.peer(source).look(), s.peer(target).look()
	done := make(chan *errorpb.Error, 1)
	s.raft.post(raftTask{region: source, proposal: &proposal{
		command: &command{
			id: s.bootID + s.proposals.Add(1), version: from.region.RegionEpoch.Version, confVer: from.region.RegionEpoch.ConfVer,
			admin: &raft_cmdpb.AdminRequest{
				CmdType:      raft_cmdpb.AdminCmdType_PrepareMerge,
				PrepareMerge: &raft_cmdpb.PrepareMergeRequest{MinIndex: from.applied + 1, Target: to.region},
			},
		},
		term: from.term, done: func(e *errorpb.Error) { done <- e },
	}})
	return <-done
}
