package tikvtest

import (
	"context"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
)

// ProposeMerge is Merge from the moment on at which it has found no lease; it returns what becomes of the proposal.
func (s *Store) ProposeMerge(source, target uint64) *errorpb.Error {
	done := make(chan *errorpb.Error, 1)
	s.postMerge(source, target, func(e *errorpb.Error) { done <- e })
	return <-done
}

func (s *Store) postMerge(source, target uint64, done func(*errorpb.Error)) {
	from, to := s.peer(source).look(), s.peer(target).look()
	s.raft.post(raftTask{region: source, proposal: &proposal{
		command: &command{
			id: s.bootID + s.proposals.Add(1), version: from.region.RegionEpoch.Version, confVer: from.region.RegionEpoch.ConfVer,
			admin: &raft_cmdpb.AdminRequest{
				CmdType:      raft_cmdpb.AdminCmdType_PrepareMerge,
				PrepareMerge: &raft_cmdpb.PrepareMergeRequest{MinIndex: from.applied + 1, Target: to.region},
			},
		},
		term: from.term, done: done,
	}})
}

// ProposeMergeAndStop stops the raft worker right after it has appended the merge to raft's log; resume lets it continue.
func (s *Store) ProposeMergeAndStop(source, target uint64) (resume func()) {
	begun, batch, proposed, end := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.raft.post(raftTask{fn: func(*peer) { close(begun); <-batch }})
	<-begun
	s.postMerge(source, target, func(*errorpb.Error) {})
	s.raft.post(raftTask{fn: func(*peer) { close(proposed); <-end }})
	close(batch)
	<-proposed
	return func() { close(end) }
}

// WaitRegionApplied is the wait of PrepareSnapshotBackup for one region.
func (s *Store) WaitRegionApplied(ctx context.Context, r *metapb.Region) *errorpb.Error {
	return s.waitRegionApplied(ctx, r)
}
