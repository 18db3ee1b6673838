package tikvtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestRequest_WrongContext_GetsTiKVsRegionError(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, key(10))
	c.settled()
	k := c.client()
	leader, good := c.leader(key(1))
	get := func(s *tikvtest.Store, kctx *kvrpcpb.Context, at []byte) *kvrpcpb.GetResponse {
		resp, err := k.on(s).KvGet(t.Context(), &kvrpcpb.GetRequest{Context: kctx, Key: at, Version: k.now()})
		require.NoError(t, err)
		return resp
	}
	require.Nil(t, get(leader, good, key(1)).RegionError)

	bad := *good
	bad.Peer = &metapb.Peer{Id: good.Peer.Id, StoreId: 77}
	e := get(leader, &bad, key(1)).RegionError
	require.EqualValues(t, 77, e.StoreNotMatch.RequestStoreId)

	bad = *good
	bad.RegionId = 999999
	e = get(leader, &bad, key(1)).RegionError
	require.Equal(t, "region 999999 not found", e.Message)
	require.NotNil(t, e.RegionNotFound)

	bad = *good
	bad.Peer = &metapb.Peer{Id: 51, StoreId: leader.ID()}
	e = get(leader, &bad, key(1)).RegionError
	require.EqualValues(t, 51, e.MismatchPeerId.RequestPeerId)

	bad = *good
	bad.RegionEpoch = &metapb.RegionEpoch{ConfVer: good.RegionEpoch.ConfVer, Version: good.RegionEpoch.Version - 1}
	e = get(leader, &bad, key(1)).RegionError
	require.Contains(t, e.Message, "EpochNotMatch current epoch of region")
	require.Equal(t, good.RegionId, e.EpochNotMatch.CurrentRegions[0].Id)

	e = get(leader, good, key(11)).RegionError
	require.Equal(t, good.RegionId, e.KeyNotInRegion.RegionId)

	for _, s := range c.stores {
		if s == leader {
			continue
		}
		other := *good
		other.Peer = nil
		e = get(s, &other, key(1)).RegionError
		require.Equal(t, leader.ID(), e.NotLeader.Leader.StoreId)
		require.Contains(t, e.Message, "leader may Some(id: ")
	}
}

func TestRequest_Faults_StrikeAtTheirPosition(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k := c.client()
	leader, kctx := c.leader(key(1))
	kv := k.on(leader)
	prewrite := func(ctx context.Context) (*kvrpcpb.PrewriteResponse, error) {
		return kv.KvPrewrite(ctx, &kvrpcpb.PrewriteRequest{Context: kctx, StartVersion: k.now(), PrimaryLock: key(1), LockTtl: 1,
			Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: key(1), Value: []byte("v")}}})
	}
	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.KvPrewrite", Code: "server_is_busy"}))
	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.KvPrewrite", Code: "Aborted"}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.KvPrewrite", Position: fault.Stall, Do: cancel}))
	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.KvPrewrite", Position: fault.After}))
	resp, err := prewrite(t.Context())
	require.NoError(t, err)
	require.NotNil(t, resp.RegionError.ServerIsBusy)
	_, err = prewrite(t.Context())
	require.Equal(t, codes.Aborted, status.Code(err))
	_, err = prewrite(ctx)
	require.Equal(t, codes.Canceled, status.Code(err))
	_, err = prewrite(t.Context())
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Empty(t, c.faults.Unreached())
	resp, err = prewrite(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, resp.Errors, "the write whose answer was lost has happened")
}

func TestRequest_LeaderCutOff_NeverReadsOldData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k := c.client()
	k.put(key(1), []byte("old"))
	old, kctx := c.leader(key(1))
	for _, s := range c.stores {
		if s != old {
			c.net.Cut(old.ID(), s.ID())
		}
	}
	resp, err := k.on(old).KvGet(t.Context(), &kvrpcpb.GetRequest{Context: kctx, Key: key(1), Version: k.now()})
	require.NoError(t, err)
	require.NotNil(t, resp.RegionError.NotLeader)
	others := *c
	others.stores = nil
	for _, s := range c.stores {
		if s != old {
			others.stores = append(others.stores, s)
		}
	}
	k = others.client()
	k.put(key(1), []byte("new"))
	for _, s := range others.stores {
		c.net.Heal(old.ID(), s.ID())
	}
	require.Equal(t, "new", k.get(key(1), k.now()))
	require.Eventually(t, func() bool { return !old.Peers()[0].Leader }, 30*time.Second, time.Millisecond)
}

func TestStart_WrongVolumes_AreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.stores[0].Kill()
	start := func(pd *tinyPD, v volumes) error {
		s, err := tikvtest.Start(c.ctx(5*time.Second), tikvtest.Config{Data: v.data, RaftLog: v.log, PD: pd})
		if err == nil {
			s.Kill()
		}
		return err
	}
	require.ErrorContains(t, start(newTinyPD(8), c.volumes[0]), "cluster id mismatch")
	recovering := newTinyPD(9)
	recovering.recovering = true
	require.ErrorContains(t, start(recovering, newVolumes()), "no store ident")
	require.ErrorContains(t, start(c.pd, volumes{c.volumes[0].data, newVolumes().log}), "no raft engine")
	require.NoError(t, start(c.pd, c.volumes[0]))
}
