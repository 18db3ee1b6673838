package tikvtest

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// kvService serves tikvpb.Tikv. What is not here is Unimplemented.
type kvService struct {
	tikvpb.UnimplementedTikvServer
	s *Store
}

func encodeKeys(keys ...[]byte) [][]byte {
	encoded := make([][]byte, len(keys))
	for i, k := range keys {
		encoded[i] = mvcc.EncodeKey(k)
	}
	return encoded
}

// KvGet implements tikvpb.TikvServer.
func (k *kvService) KvGet(ctx context.Context, req *kvrpcpb.GetRequest) (resp *kvrpcpb.GetResponse, err error) {
	e, err := k.s.read(ctx, kvCall{name: "KvGet", context: req.Context, keys: encodeKeys(req.Key), readTS: req.Version},
		func(r mvcc.Reader, _ *metapb.Region) { resp = mvcc.Get(r, req) })
	if e != nil {
		resp = &kvrpcpb.GetResponse{RegionError: e}
	}
	return resp, err
}

// KvBatchGet implements tikvpb.TikvServer.
func (k *kvService) KvBatchGet(ctx context.Context, req *kvrpcpb.BatchGetRequest) (resp *kvrpcpb.BatchGetResponse, err error) {
	e, err := k.s.read(ctx, kvCall{name: "KvBatchGet", context: req.Context, keys: encodeKeys(req.Keys...), readTS: req.Version},
		func(r mvcc.Reader, _ *metapb.Region) { resp = mvcc.BatchGet(r, req) })
	if e != nil {
		resp = &kvrpcpb.BatchGetResponse{RegionError: e}
	}
	return resp, err
}

// KvScan implements tikvpb.TikvServer. A scan stays within the region.
func (k *kvService) KvScan(ctx context.Context, req *kvrpcpb.ScanRequest) (resp *kvrpcpb.ScanResponse, err error) {
	e, err := k.s.read(ctx, kvCall{name: "KvScan", context: req.Context, readTS: req.Version},
		func(r mvcc.Reader, region *metapb.Region) { resp = mvcc.Scan(r, req, boundsOf(region)) })
	if e != nil {
		resp = &kvrpcpb.ScanResponse{RegionError: e}
	}
	return resp, err
}

// KvScanLock implements tikvpb.TikvServer.
func (k *kvService) KvScanLock(ctx context.Context, req *kvrpcpb.ScanLockRequest) (resp *kvrpcpb.ScanLockResponse, err error) {
	e, err := k.s.read(ctx, kvCall{name: "KvScanLock", context: req.Context, readTS: req.MaxVersion},
		func(r mvcc.Reader, region *metapb.Region) {
			resp = mvcc.ScanLock(mvcc.Within(r, boundsOf(region)), req)
		})
	if e != nil {
		resp = &kvrpcpb.ScanLockResponse{RegionError: e}
	}
	return resp, err
}

// KvPrewrite implements tikvpb.TikvServer.
func (k *kvService) KvPrewrite(ctx context.Context, req *kvrpcpb.PrewriteRequest) (resp *kvrpcpb.PrewriteResponse, err error) {
	keys := make([][]byte, len(req.Mutations))
	for i, m := range req.Mutations {
		keys[i] = mvcc.EncodeKey(m.Key)
	}
	e, err := k.s.write(ctx, kvCall{name: "KvPrewrite", context: req.Context, keys: keys, prewrite: req},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.Prewrite(r, req, k.s.maxTS.read())
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.PrewriteResponse{RegionError: e}
	}
	if err == nil && resp.GetRegionError() == nil && len(resp.GetErrors()) == 0 {
		k.s.batches.note(req)
	}
	switch {
	case resp.GetOnePcCommitTs() > 0:
		k.s.ownTS.onePhase.Add(1)
	case resp.GetMinCommitTs() > 0:
		k.s.ownTS.async.Add(1)
	}
	return resp, err
}

// KvCommit implements tikvpb.TikvServer.
func (k *kvService) KvCommit(ctx context.Context, req *kvrpcpb.CommitRequest) (resp *kvrpcpb.CommitResponse, err error) {
	e, err := k.s.write(ctx, kvCall{name: "KvCommit", context: req.Context, keys: encodeKeys(req.Keys...)},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.Commit(r, req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.CommitResponse{RegionError: e}
	}
	return resp, err
}

// KvBatchRollback implements tikvpb.TikvServer.
func (k *kvService) KvBatchRollback(ctx context.Context, req *kvrpcpb.BatchRollbackRequest) (resp *kvrpcpb.BatchRollbackResponse, err error) {
	e, err := k.s.write(ctx, kvCall{name: "KvBatchRollback", context: req.Context, keys: encodeKeys(req.Keys...), seenTS: req.StartVersion},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.BatchRollback(r, req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.BatchRollbackResponse{RegionError: e}
	}
	return resp, err
}

// KvResolveLock implements tikvpb.TikvServer.
func (k *kvService) KvResolveLock(ctx context.Context, req *kvrpcpb.ResolveLockRequest) (resp *kvrpcpb.ResolveLockResponse, err error) {
	e, err := k.s.write(ctx, kvCall{name: "KvResolveLock", context: req.Context, keys: encodeKeys(req.Keys...), seenTS: req.StartVersion},
		func(r mvcc.Reader, region *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.ResolveLock(mvcc.Within(r, boundsOf(region)), req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.ResolveLockResponse{RegionError: e}
	}
	return resp, err
}

// KvCheckTxnStatus implements tikvpb.TikvServer.
func (k *kvService) KvCheckTxnStatus(ctx context.Context, req *kvrpcpb.CheckTxnStatusRequest) (resp *kvrpcpb.CheckTxnStatusResponse, err error) {
	e, err := k.s.write(ctx, kvCall{name: "KvCheckTxnStatus", context: req.Context, keys: encodeKeys(req.PrimaryKey), seenTS: seenBy(req)},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.CheckTxnStatus(r, req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.CheckTxnStatusResponse{RegionError: e}
	}
	return resp, err
}

// KvCheckSecondaryLocks implements tikvpb.TikvServer.
func (k *kvService) KvCheckSecondaryLocks(ctx context.Context, req *kvrpcpb.CheckSecondaryLocksRequest) (resp *kvrpcpb.CheckSecondaryLocksResponse, err error) {
	e, err := k.s.write(ctx, kvCall{name: "KvCheckSecondaryLocks", context: req.Context, keys: encodeKeys(req.Keys...), seenTS: req.StartVersion},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.CheckSecondaryLocks(r, req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.CheckSecondaryLocksResponse{RegionError: e}
	}
	return resp, err
}

// KvTxnHeartBeat implements tikvpb.TikvServer.
func (k *kvService) KvTxnHeartBeat(ctx context.Context, req *kvrpcpb.TxnHeartBeatRequest) (resp *kvrpcpb.TxnHeartBeatResponse, err error) {
	e, err := k.s.write(ctx, kvCall{name: "KvTxnHeartBeat", context: req.Context, keys: encodeKeys(req.PrimaryLock)},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.TxnHeartBeat(r, req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.TxnHeartBeatResponse{RegionError: e}
	}
	return resp, err
}

// KvCleanup implements tikvpb.TikvServer.
func (k *kvService) KvCleanup(ctx context.Context, req *kvrpcpb.CleanupRequest) (resp *kvrpcpb.CleanupResponse, err error) {
	e, err := k.s.write(ctx, kvCall{name: "KvCleanup", context: req.Context, keys: encodeKeys(req.Key), seenTS: req.StartVersion},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.Cleanup(r, req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.CleanupResponse{RegionError: e}
	}
	return resp, err
}

// KvPessimisticLock implements tikvpb.TikvServer.
func (k *kvService) KvPessimisticLock(ctx context.Context, req *kvrpcpb.PessimisticLockRequest) (resp *kvrpcpb.PessimisticLockResponse, err error) {
	keys := make([][]byte, len(req.Mutations))
	for i, m := range req.Mutations {
		keys[i] = mvcc.EncodeKey(m.Key)
	}
	e, err := k.s.write(ctx, kvCall{name: "KvPessimisticLock", context: req.Context, keys: keys, seenTS: req.ForUpdateTs},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.PessimisticLock(r, req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.PessimisticLockResponse{RegionError: e}
	}
	return resp, err
}

// KVPessimisticRollback implements tikvpb.TikvServer.
func (k *kvService) KVPessimisticRollback(ctx context.Context, req *kvrpcpb.PessimisticRollbackRequest) (resp *kvrpcpb.PessimisticRollbackResponse, err error) {
	e, err := k.s.write(ctx, kvCall{name: "KVPessimisticRollback", context: req.Context, keys: encodeKeys(req.Keys...)},
		func(r mvcc.Reader, region *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.PessimisticRollback(mvcc.Within(r, boundsOf(region)), req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.PessimisticRollbackResponse{RegionError: e}
	}
	return resp, err
}
