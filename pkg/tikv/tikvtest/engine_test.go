package tikvtest_test

import (
	"context"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestStore_SmallDevicesAndLogGC_RunOnAndSurviveACrash(t *testing.T) {
	t.Parallel()
	c := &testCluster{t: t, pd: newTinyPD(7), net: tikvtest.NewNetwork(), options: quick}
	c.options.CheckpointBytes = 32 << 10
	c.options.LogGCInterval = 10 * time.Millisecond
	c.options.LogKeep = 10
	for range 3 {
		c.volumes = append(c.volumes, volumes{disk.New(1 << 20), disk.New(1 << 20)})
	}
	c.startAll()
	require.NoError(t, tikvtest.BootstrapCluster(c.ctx(10*time.Second), c.stores...))
	k := c.client()
	big := make([]byte, 2000) // 600 of them are more than a device holds
	for i := range 600 {
		k.rollback(key(100+i%10), k.prewrite(key(100+i%10), big))
		if i%10 == 0 {
			k.put(key(i/10%10), []byte(strconv.Itoa(i)))
		}
	}
	for _, s := range c.stores {
		s.Kill()
	}
	c.startAll()
	require.NoError(t, tikvtest.AwaitLeaders(c.ctx(20*time.Second), c.stores...))
	for i := range 10 {
		require.Equal(t, strconv.Itoa(500+10*i), k.get(key(i), k.now()))
	}
}

func TestStore_DeviceFullOrGone_CrashesTheStore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.volumes[0].data.Detach()
	<-c.stores[0].Done()
	require.ErrorContains(t, c.stores[0].Err(), "device is detached")
	require.ErrorContains(t, c.stores[0].Err(), "FATAL")
}

func TestBatchCommands_AnswersEachRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k := c.client()
	k.put(key(1), []byte("v"))
	leader, kctx := c.leader(key(1))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := k.on(leader).BatchCommands(ctx)
	require.NoError(t, err)
	ts := k.now()
	require.NoError(t, stream.Send(&tikvpb.BatchCommandsRequest{
		RequestIds: []uint64{1, 2, 3},
		Requests: []*tikvpb.BatchCommandsRequest_Request{
			{Cmd: &tikvpb.BatchCommandsRequest_Request_Get{Get: &kvrpcpb.GetRequest{Context: kctx, Key: key(1), Version: ts}}},
			{Cmd: &tikvpb.BatchCommandsRequest_Request_Scan{Scan: &kvrpcpb.ScanRequest{Context: kctx, Limit: 10, Version: ts}}},
			{Cmd: &tikvpb.BatchCommandsRequest_Request_Empty{Empty: &tikvpb.BatchCommandsEmptyRequest{TestId: 9}}},
		},
	}))
	answers := map[uint64]*tikvpb.BatchCommandsResponse_Response{}
	for len(answers) < 3 {
		resp, err := stream.Recv()
		require.NoError(t, err)
		for i, id := range resp.RequestIds {
			answers[id] = resp.Responses[i]
		}
	}
	require.Equal(t, "v", string(answers[1].GetGet().Value))
	require.Len(t, answers[2].GetScan().Pairs, 1)
	require.EqualValues(t, 9, answers[3].GetEmpty().TestId)
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
}

// Without garbage collection a store under load grows for ever, in memory and on its devices; with it, it has one
// record a key, and a restart finds what was there.
func TestStore_CollectGarbage_BoundsVersionsAndDevice(t *testing.T) {
	t.Parallel()
	c := &testCluster{t: t, pd: newTinyPD(7), net: tikvtest.NewNetwork(), options: quick}
	c.options.CheckpointBytes = 32 << 10
	for range 3 {
		c.volumes = append(c.volumes, volumes{disk.New(4 << 20), disk.New(4 << 20)})
	}
	c.startAll()
	require.NoError(t, tikvtest.BootstrapCluster(c.ctx(10*time.Second), c.stores...))
	k := c.client()
	const keys = 5
	write := func(n int) {
		for i := range n {
			k.put(key(i%keys), []byte(strconv.Itoa(i)))
		}
	}
	for range 3 {
		write(200)
		c.settled()
		safe := k.now()
		for _, s := range c.stores {
			_, locked := s.OldestLock()
			require.False(t, locked)
			require.GreaterOrEqual(t, s.Versions(), 200, "nothing is dropped before")
			require.Positive(t, s.CollectGarbage(safe))
			require.Equal(t, keys, s.Versions())
			require.Zero(t, s.CollectGarbage(safe), "again there is nothing to drop")
		}
		require.Equal(t, "199", k.get(key(199%keys), k.now()))
	}
	for _, s := range c.stores {
		s.Stop()
	}
	c.startAll()
	require.NoError(t, tikvtest.AwaitLeaders(c.ctx(20*time.Second), c.stores...))
	require.Equal(t, keys, c.stores[0].Versions(), "a restart does not bring them back")
	require.Equal(t, "199", c.client().get(key(199%keys), k.now()))
}
