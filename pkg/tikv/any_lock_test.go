package tikv_test

import (
	"math"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// A lock of any kind and time is one, in memory too; only an answer without any is none.
func TestAnyLock_WhatCounts(t *testing.T) {
	t.Parallel()
	of := func(op kvrpcpb.Op, ts uint64) *kvrpcpb.LockInfo {
		return &kvrpcpb.LockInfo{LockType: op, LockVersion: ts, Key: []byte("a")}
	}
	for name, c := range map[string]struct {
		answer kvrpcpb.ScanLockResponse
		want   bool
		fails  bool
	}{
		"none":                             {},
		"a write":                          {answer: kvrpcpb.ScanLockResponse{Locks: []*kvrpcpb.LockInfo{of(kvrpcpb.Op_Put, 9)}}, want: true},
		"a pessimistic lock":               {answer: kvrpcpb.ScanLockResponse{Locks: []*kvrpcpb.LockInfo{of(kvrpcpb.Op_PessimisticLock, 9)}}, want: true},
		"a lock alone":                     {answer: kvrpcpb.ScanLockResponse{Locks: []*kvrpcpb.LockInfo{of(kvrpcpb.Op_Lock, 9)}}, want: true},
		"one of the largest timestamp":     {answer: kvrpcpb.ScanLockResponse{Locks: []*kvrpcpb.LockInfo{of(kvrpcpb.Op_Put, math.MaxUint64)}}, want: true},
		"an asynchronous commit in memory": {answer: kvrpcpb.ScanLockResponse{Error: &kvrpcpb.KeyError{Locked: of(kvrpcpb.Op_Put, 9)}}, want: true},
		"another error":                    {answer: kvrpcpb.ScanLockResponse{Error: &kvrpcpb.KeyError{Abort: "why"}}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, client := serve(t, &script{scanLock: func(req *kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse {
				for _, l := range c.answer.Locks {
					if l.LockVersion > req.MaxVersion {
						return &kvrpcpb.ScanLockResponse{}
					}
				}
				return &c.answer
			}})
			got, err := client.AnyLock(within(t, 5*time.Second), address, cluster.Region{ID: 1})
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAnyLock_RegionError_IsOne(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{scanLock: func(*kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse {
		return &kvrpcpb.ScanLockResponse{RegionError: &errorpb.Error{FlashbackInProgress: &errorpb.FlashbackInProgress{}}}
	}})
	_, err := client.AnyLock(within(t, 5*time.Second), address, cluster.Region{ID: 1})
	var region *tikv.RegionError
	require.ErrorAs(t, err, &region)
	require.Equal(t, tikv.RegionInFlashback, region.Kind)
}
