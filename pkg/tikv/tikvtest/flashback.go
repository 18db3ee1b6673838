package tikvtest

import (
	"context"
	"fmt"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// flashbackBatch is how many keys one raft entry of a flashback changes.
const flashbackBatch = 256

// KvPrepareFlashbackToVersion implements tikvpb.TikvServer. Like TiKV it looks at no timestamp: a newer
// start_ts just takes over.
func (k *kvService) KvPrepareFlashbackToVersion(
	ctx context.Context, req *kvrpcpb.PrepareFlashbackToVersionRequest,
) (*kvrpcpb.PrepareFlashbackToVersionResponse, error) {
	strike := k.s.strikeAt(ctx, "KvPrepareFlashbackToVersion")
	if strike.refuse != nil {
		return nil, strike.refuse
	}
	e, err := strike.region, error(nil)
	if e == nil {
		k.s.calls.add("KvPrepareFlashbackToVersion")
		e, err = k.s.prepareFlashback(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	return &kvrpcpb.PrepareFlashbackToVersionResponse{RegionError: e}, strike.answer()
}

func (s *Store) prepareFlashback(ctx context.Context, req *kvrpcpb.PrepareFlashbackToVersionRequest) (*errorpb.Error, error) {
	p, v, e := s.admitAtOnce(req.Context, passFlashback) // TiKV takes no latch for it either
	if e == nil {
		e = rangeOutside(v.region, encodeKey(req.StartKey), encodeKey(req.EndKey))
	}
	if e != nil {
		return e, nil
	}
	if v.region.IsInFlashback && v.region.FlashbackStartTs == req.StartTs {
		return nil, nil
	}
	return s.replicate(ctx, p, v, &command{admin: &raft_cmdpb.AdminRequest{
		CmdType:          raft_cmdpb.AdminCmdType_PrepareFlashback,
		PrepareFlashback: &raft_cmdpb.PrepareFlashbackRequest{StartTs: req.StartTs},
	}}, nil)
}

// KvFlashbackToVersion implements tikvpb.TikvServer.
func (k *kvService) KvFlashbackToVersion(
	ctx context.Context, req *kvrpcpb.FlashbackToVersionRequest,
) (*kvrpcpb.FlashbackToVersionResponse, error) {
	strike := k.s.strikeAt(ctx, "KvFlashbackToVersion")
	if strike.refuse != nil || strike.region != nil {
		return &kvrpcpb.FlashbackToVersionResponse{RegionError: strike.region}, strike.refuse
	}
	k.s.calls.add("KvFlashbackToVersion")
	text, e, err := k.s.flashback(ctx, req)
	if err != nil {
		return nil, err
	}
	return &kvrpcpb.FlashbackToVersionResponse{RegionError: e, Error: text}, strike.answer()
}

func (s *Store) flashback(ctx context.Context, req *kvrpcpb.FlashbackToVersionRequest) (string, *errorpb.Error, error) {
	p, _, e, err := s.admit(ctx, req.Context, passFlashback)
	if e != nil || err != nil {
		return "", e, err
	}
	release, err := p.latch.acquire(ctx, nil)
	if err != nil {
		return "", nil, err
	}
	defer release()
	p, v, e, err := s.admit(ctx, req.Context, passFlashback)
	if e == nil && err == nil {
		e = rangeOutside(v.region, encodeKey(req.StartKey), encodeKey(req.EndKey))
	}
	if e != nil || err != nil {
		return "", e, err
	}
	if req.CommitTs <= req.StartTs {
		return fmt.Sprintf("Invalid transaction tso with start_ts:%d, commit_ts:%d", req.StartTs, req.CommitTs), nil, nil
	}
	done := v.done.startTS == req.StartTs && (v.done.commitTS == req.CommitTs || v.done.empty)
	if prepared := v.region.IsInFlashback && v.region.FlashbackStartTs == req.StartTs; !prepared {
		if done && !v.region.IsInFlashback {
			return "", nil, nil // the same call again
		}
		if !v.region.IsInFlashback && s.hasNoKey(v.region) {
			return "", nil, nil // nothing to lock, so TiKV does not find out that it was not prepared
		}
		return "", flashbackNotPrepared(p.regionID), nil
	}
	return s.finishFlashback(ctx, p, v, req, done)
}

// finishFlashback rewinds the region unless that is done, and ends its flashback state.
func (s *Store) finishFlashback(
	ctx context.Context, p *peer, v peerView, req *kvrpcpb.FlashbackToVersionRequest, done bool,
) (string, *errorpb.Error, error) {
	finished := finishedFlashback{startTS: req.StartTs, commitTS: req.CommitTs, empty: s.hasNoKey(v.region)}
	if !done && req.Version < req.StartTs && !s.opts.IgnoreFlashback {
		if e, err := s.rewind(ctx, p, v, req); e != nil || err != nil {
			return "", e, err
		}
	}
	e, err := s.replicate(ctx, p, v, &command{flashback: true, finished: finished, admin: &raft_cmdpb.AdminRequest{
		CmdType: raft_cmdpb.AdminCmdType_FinishFlashback, FinishFlashback: &raft_cmdpb.FinishFlashbackRequest{},
	}}, nil)
	return "", e, err
}

// rewind writes the region's keys back, a batch an entry.
func (s *Store) rewind(ctx context.Context, p *peer, v peerView, req *kvrpcpb.FlashbackToVersionRequest) (*errorpb.Error, error) {
	keys := mvcc.Range{Start: v.region.StartKey, End: v.region.EndKey}
	if len(req.StartKey) > 0 {
		keys.Start = encodeKey(req.StartKey)
	}
	if len(req.EndKey) > 0 {
		keys.End = encodeKey(req.EndKey)
	}
	if err := s.walk(ctx, keys); err != nil {
		return nil, err
	}
	var cursor []byte
	for done := false; !done; {
		var muts []mvcc.Mutation
		var err error
		s.data.view(func(r mvcc.Reader) {
			muts, cursor, done, err = mvcc.FlashbackBatch(
				r, keys, cursor, req.Version, req.StartTs, req.CommitTs, flashbackBatch)
		})
		if err != nil {
			s.crash("%v", err) // a real store dies of this assertion, and again on every retry
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if len(muts) == 0 {
			continue
		}
		if e, err := s.replicate(ctx, p, v, &command{flashback: true, muts: muts}, nil); e != nil || err != nil {
			return e, err
		}
	}
	return nil, nil
}

func (s *Store) hasNoKey(r *metapb.Region) bool {
	empty := true
	s.data.view(func(reader mvcc.Reader) {
		reader.Ascend(mvcc.CFWrite, r.StartKey, r.EndKey, func(_, _ []byte) bool {
			empty = false
			return false
		})
	})
	return empty
}
