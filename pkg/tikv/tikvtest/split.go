package tikvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// SplitRegion implements tikvpb.TikvServer.
func (k *kvService) SplitRegion(ctx context.Context, req *kvrpcpb.SplitRegionRequest) (*kvrpcpb.SplitRegionResponse, error) {
	strike := k.s.strikeAt(ctx, "SplitRegion")
	if strike.refuse != nil || strike.region != nil {
		return &kvrpcpb.SplitRegionResponse{RegionError: strike.region}, strike.refuse
	}
	keys := slices.Clone(req.SplitKeys)
	if len(keys) == 0 && len(req.SplitKey) > 0 { // old clients send it
		keys = append(keys, req.SplitKey)
	}
	if !req.IsRawKv {
		for i := range keys {
			keys[i] = mvcc.EncodeKey(keys[i])
		}
	}
	regions, e, err := k.s.split(ctx, req.Context, keys)
	if e != nil {
		return &kvrpcpb.SplitRegionResponse{RegionError: e}, nil
	}
	if err != nil {
		return nil, err
	}
	k.s.calls.add("SplitRegion")
	return &kvrpcpb.SplitRegionResponse{Regions: regions}, strike.answer()
}

// split splits a region at encoded keys and returns the new regions in key order once it is applied here.
func (s *Store) split(ctx context.Context, c *kvrpcpb.Context, keys [][]byte) ([]*metapb.Region, *errorpb.Error, error) {
	p, v, e, err := s.admit(ctx, c, refuseInFlashback)
	if e != nil || err != nil {
		return nil, e, err
	}
	if e := outside(v.region, keys); e != nil {
		return nil, e, nil
	}
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	if len(keys) > 0 && bytes.Equal(keys[0], v.region.StartKey) {
		keys = keys[1:]
	}
	if len(keys) == 0 {
		return nil, &errorpb.Error{Message: "no valid key found for split."}, nil
	}
	if e := s.suspendedAdmin(); e != nil {
		return nil, e, nil
	}
	ask, err := s.pd.AskBatchSplit(ctx, &pdpb.AskBatchSplitRequest{
		Header: s.header(), Region: v.region, SplitCount: uint32(len(keys)),
	})
	if err := pdError(ask.GetHeader(), err); err != nil {
		return nil, &errorpb.Error{Message: fmt.Sprintf("ask batch split: %v", err)}, nil
	}
	splits := &raft_cmdpb.BatchSplitRequest{RightDerive: true}
	for i, key := range keys {
		splits.Requests = append(splits.Requests, &raft_cmdpb.SplitRequest{
			SplitKey: key, NewRegionId: ask.Ids[i].NewRegionId, NewPeerIds: ask.Ids[i].NewPeerIds,
		})
	}
	e, err = s.replicate(ctx, p, v, &command{
		admin: &raft_cmdpb.AdminRequest{CmdType: raft_cmdpb.AdminCmdType_BatchSplit, Splits: splits},
	}, nil)
	if e != nil || err != nil {
		return nil, e, err
	}
	var regions []*metapb.Region
	for _, state := range splitStates(v.region, splits) {
		regions = append(regions, state.region)
	}
	return regions, nil, nil
}

// suspendedAdmin is the refusal of splits, merges, leader transfers and log compaction under a lease, or nil.
func (s *Store) suspendedAdmin() *errorpb.Error {
	if s.ignoreHold.Load() {
		return nil
	}
	if left := s.lease.left(time.Now()); left > 0 {
		return suspendedFor(left)
	}
	return nil
}

// beginsAdmin reports whether the command changes the shape of regions, and is not the end of what began before a lease.
func (c *command) beginsAdmin() bool {
	switch c.admin.GetCmdType() {
	case raft_cmdpb.AdminCmdType_BatchSplit, raft_cmdpb.AdminCmdType_PrepareMerge, raft_cmdpb.AdminCmdType_ChangePeerV2:
		return true
	default:
		return false
	}
}

// transferLeader hands a region over to another of its peers, unless a lease forbids it. It does not wait.
func (s *Store) transferLeader(region, to uint64) {
	if s.suspendedAdmin() != nil {
		return // the operator stays RUNNING and the leader does not move
	}
	s.raft.post(raftTask{region: region, fn: func(p *peer) {
		p.stayAwake()
		if r := p.look().region; !r.IsInFlashback && !isWitness(r, to) {
			p.node.TransferLeader(to)
		}
	}})
}

// TransferLeader asks the store, which has to lead the region, to hand it over to another store. The transfer
// is refused under a lease and in a flashback; it is under way when this returns.
func (s *Store) TransferLeader(region, toStore uint64) error {
	p := s.peer(region)
	if p == nil || !p.look().leader {
		return fmt.Errorf("store %d does not lead region %d", s.id, region)
	}
	to := peerOn(p.look().region, toStore)
	if to == nil {
		return fmt.Errorf("region %d has no peer on store %d", region, toStore)
	}
	if e := s.suspendedAdmin(); e != nil {
		return errors.New(e.Message)
	}
	s.transferLeader(region, to.Id)
	return nil
}

// proposeCompactLog is called by the raft worker, so it must not wait.
func (s *Store) proposeCompactLog(p *peer, v peerView, index, term uint64) {
	if s.suspendedAdmin() != nil {
		return
	}
	s.proposeAdmin(p, v, &raft_cmdpb.AdminRequest{
		CmdType:    raft_cmdpb.AdminCmdType_CompactLog,
		CompactLog: &raft_cmdpb.CompactLogRequest{CompactIndex: index, CompactTerm: term},
	})
}

// SplitAt splits the cluster at raw keys by ordinary split requests to the leaders among the stores, and
// returns when every region has a leader that serves. Keys that are boundaries already are left out.
func SplitAt(ctx context.Context, stores []*Store, keys ...[]byte) error {
	left := make([][]byte, len(keys))
	for i, k := range keys {
		left[i] = mvcc.EncodeKey(k)
	}
	for len(left) > 0 {
		if err := AwaitLeaders(ctx, stores...); err != nil {
			return fmt.Errorf("split: %w", err)
		}
		if err := ctx.Err(); err != nil { // a hold refuses splits for as long as it lasts
			return fmt.Errorf("split: %w", err)
		}
		left = splitOnce(ctx, stores, left)
	}
	return AwaitLeaders(ctx, stores...)
}

// splitOnce sends one request to each region and returns the keys that remain.
func splitOnce(ctx context.Context, stores []*Store, keys [][]byte) [][]byte {
	for _, s := range stores {
		for _, p := range s.allPeers() {
			v := p.look()
			var within [][]byte
			rest := keys[:0:0]
			for _, k := range keys {
				switch {
				case !v.ready() || !boundsOf(v.region).Contains(k):
					rest = append(rest, k)
				case !bytes.Equal(k, v.region.StartKey):
					within = append(within, k)
				}
			}
			if len(within) == 0 {
				keys = rest
				continue
			}
			_, e, err := s.split(ctx, &kvrpcpb.Context{RegionId: p.regionID, RegionEpoch: v.region.RegionEpoch}, slices.Clone(within))
			if e == nil && err == nil {
				keys = rest
			}
		}
	}
	return keys
}

// campaign makes a peer stand for election now.
func (s *Store) campaign(region uint64) {
	s.raft.post(raftTask{region: region, fn: func(p *peer) {
		p.stayAwake()
		_ = p.node.Campaign()
	}})
}
