package flashstore

import (
	"bytes"
	"context"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/util/codec"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// kvService serves the calls of a flashback.
type kvService struct {
	tikvpb.UnimplementedTikvServer
	s *Store
}

// BatchCommands implements tikvpb.TikvServer.
func (k *kvService) BatchCommands(stream tikvpb.Tikv_BatchCommandsServer) error {
	return tikvtest.ServeBatches(stream, k)
}

// admit finds the region that a call is for, or why it is refused. The caller holds mu.
func (s *Store) admit(c *kvrpcpb.Context, start, end []byte) (*state, *errorpb.Error) {
	if id := c.GetPeer().GetStoreId(); id != s.cfg.ID {
		return nil, &errorpb.Error{Message: "to store id of another", StoreNotMatch: &errorpb.StoreNotMatch{RequestStoreId: id, ActualStoreId: s.cfg.ID}}
	}
	st := s.regions[c.GetRegionId()]
	switch {
	case st == nil:
		return nil, &errorpb.Error{Message: "region not found", RegionNotFound: &errorpb.RegionNotFound{RegionId: c.GetRegionId()}}
	case !st.leads:
		return nil, &errorpb.Error{Message: "peer is not leader, leader may None", NotLeader: &errorpb.NotLeader{RegionId: c.GetRegionId()}}
	case c.GetRegionEpoch().GetVersion() != st.region.RegionEpoch.Version:
		return nil, &errorpb.Error{Message: "EpochNotMatch", EpochNotMatch: &errorpb.EpochNotMatch{}}
	case !bytes.Equal(encoded(start), st.region.StartKey) || !bytes.Equal(encoded(end), st.region.EndKey):
		return nil, &errorpb.Error{Message: "key is not in region", KeyNotInRegion: &errorpb.KeyNotInRegion{RegionId: c.GetRegionId()}}
	}
	return st, nil
}

func encoded(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	return codec.EncodeBytes(nil, key)
}

// KvPrepareFlashbackToVersion implements tikvpb.TikvServer.
func (k *kvService) KvPrepareFlashbackToVersion(
	ctx context.Context, req *kvrpcpb.PrepareFlashbackToVersionRequest,
) (*kvrpcpb.PrepareFlashbackToVersionResponse, error) {
	refused, err := k.s.do(ctx, req.Context, req.StartKey, req.EndKey, nothing, func(st *state) *errorpb.Error {
		st.prepared = req.StartTs
		k.s.calls.Prepares.Add(1)
		return nil
	})
	return &kvrpcpb.PrepareFlashbackToVersionResponse{RegionError: refused}, err
}

// KvFlashbackToVersion implements tikvpb.TikvServer.
func (k *kvService) KvFlashbackToVersion(
	ctx context.Context, req *kvrpcpb.FlashbackToVersionRequest,
) (*kvrpcpb.FlashbackToVersionResponse, error) {
	refused, err := k.s.do(ctx, req.Context, req.StartKey, req.EndKey, k.s.read, func(st *state) *errorpb.Error {
		done := st.start == req.StartTs && st.commit == req.CommitTs
		if st.prepared != req.StartTs && !(done && st.prepared == 0) {
			return &errorpb.Error{FlashbackNotPrepared: &errorpb.FlashbackNotPrepared{RegionId: st.region.Id}}
		}
		st.prepared, st.start, st.commit = 0, req.StartTs, req.CommitTs
		k.s.calls.Flashbacks.Add(1)
		return nil
	})
	return &kvrpcpb.FlashbackToVersionResponse{RegionError: refused}, err
}

// KvScanLock implements tikvpb.TikvServer: no key is locked.
func (k *kvService) KvScanLock(ctx context.Context, req *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	refused, err := k.s.do(ctx, req.Context, req.StartKey, req.EndKey, nothing, func(st *state) *errorpb.Error {
		if st.prepared != 0 {
			return &errorpb.Error{FlashbackInProgress: &errorpb.FlashbackInProgress{RegionId: st.region.Id}}
		}
		return nil
	})
	return &kvrpcpb.ScanLockResponse{RegionError: refused}, err
}

func nothing(context.Context) error { return nil }

// do carries out a call on a region: checks, what it reads, work, checks again, effect.
func (s *Store) do(
	ctx context.Context, c *kvrpcpb.Context, start, end []byte, read func(context.Context) error, effect func(*state) *errorpb.Error,
) (*errorpb.Error, error) {
	s.mu.Lock()
	_, refused := s.admit(c, start, end)
	s.mu.Unlock()
	if refused != nil {
		return refused, nil
	}
	if err := read(ctx); err != nil {
		return nil, err
	}
	if err := s.work(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, refused := s.admit(c, start, end)
	if refused != nil {
		return refused, nil
	}
	s.calls.Last.Store(time.Now().UnixNano())
	return effect(st), nil
}
