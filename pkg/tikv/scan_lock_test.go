package tikv_test

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// KvScanLock answers with what the test gives it.
func (s *script) KvScanLock(ctx context.Context, req *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	if s.scanLock == nil {
		return s.UnimplementedTikvServer.KvScanLock(ctx, req)
	}
	return s.scanLock(req), nil
}

func TestFirstLock_WhatCounts(t *testing.T) {
	t.Parallel()
	lock := func(op kvrpcpb.Op, ts uint64, key string) *kvrpcpb.LockInfo {
		return &kvrpcpb.LockInfo{LockType: op, LockVersion: ts, Key: []byte(key)}
	}
	for _, c := range []struct {
		name  string
		locks []*kvrpcpb.LockInfo
		want  cluster.TS
	}{
		{"none", nil, 0},
		{"a write below", []*kvrpcpb.LockInfo{lock(kvrpcpb.Op_Put, 99, "a")}, 99},
		{"a delete below", []*kvrpcpb.LockInfo{lock(kvrpcpb.Op_Del, 98, "a")}, 98},
		{"one that began at the ts itself commits above it", []*kvrpcpb.LockInfo{lock(kvrpcpb.Op_Put, 100, "a")}, 0},
		{"a pessimistic lock", []*kvrpcpb.LockInfo{lock(kvrpcpb.Op_PessimisticLock, 9, "a")}, 0},
		{"a lock alone", []*kvrpcpb.LockInfo{lock(kvrpcpb.Op_Lock, 9, "a")}, 0},
		{"a write behind pessimistic locks", []*kvrpcpb.LockInfo{
			lock(kvrpcpb.Op_PessimisticLock, 9, "a"), lock(kvrpcpb.Op_Lock, 9, "b"), lock(kvrpcpb.Op_Put, 97, "c"),
		}, 97},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, client := serve(t, &script{scanLock: func(req *kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse {
				resp := &kvrpcpb.ScanLockResponse{}
				for _, l := range c.locks {
					if l.LockVersion <= req.MaxVersion && string(l.Key) >= string(req.StartKey) && len(resp.Locks) < int(req.Limit) {
						resp.Locks = append(resp.Locks, l)
					}
				}
				return resp
			}})
			got, err := client.FirstLock(within(t, 5*time.Second), address, cluster.Region{ID: 1}, 100)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestFirstLock_AsynchronousCommitInMemory_IsALock(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{scanLock: func(*kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse {
		return &kvrpcpb.ScanLockResponse{Error: &kvrpcpb.KeyError{Locked: &kvrpcpb.LockInfo{LockVersion: 55}}}
	}})
	got, err := client.FirstLock(within(t, 5*time.Second), address, cluster.Region{ID: 1}, 100)
	require.NoError(t, err)
	require.Equal(t, cluster.TS(55), got)
}

func TestFirstLock_RegionError_IsOne(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{scanLock: func(*kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse {
		return &kvrpcpb.ScanLockResponse{RegionError: &errorpb.Error{NotLeader: &errorpb.NotLeader{}}}
	}})
	_, err := client.FirstLock(within(t, 5*time.Second), address, cluster.Region{ID: 1}, 100)
	var region *tikv.RegionError
	require.ErrorAs(t, err, &region)
	require.Equal(t, tikv.RegionStale, region.Kind)
}
