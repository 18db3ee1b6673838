package pdtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestMembers_Follower_ForwardsHTTPAndRefusesGRPC(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Members: 3})
	require.Len(t, s.URLs(), 3)
	for _, url := range s.URLs() {
		code, _ := curlAt(t, url, "GET", api+"/stores", "")
		require.Equal(t, 200, code)
		members, err := dialAt(t, url).GetMembers(t.Context(), &pdpb.GetMembersRequest{})
		require.NoError(t, err)
		require.Len(t, members.GetMembers(), 3)
		require.Equal(t, s.URLs()[0], members.GetLeader().GetClientUrls()[0])
	}
	_, err := dialAt(t, s.URLs()[1]).AllocID(t.Context(), &pdpb.AllocIDRequest{Header: &pdpb.RequestHeader{ClusterId: s.ClusterID()}})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Contains(t, err.Error(), "not leader")
}

func TestMembers_LeaderKilled_AnotherTakesOverWithoutPauses(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Members: 3, ElectionTimeout: 300 * time.Millisecond})
	c, err := pd.Open(t.Context(), pd.Config{Addresses: s.URLs()})
	require.NoError(t, err)
	defer c.Close()
	before, err := c.Now(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.PauseScheduler(t.Context(), balanceLeader, time.Minute))
	require.NoError(t, c.MarkRecovering(t.Context()))

	s.KillMember(0)
	require.Equal(t, -1, s.Leader())
	require.Eventually(t, func() bool {
		after, err := c.Now(t.Context())
		return err == nil && after > before
	}, patience, tick)
	require.Equal(t, 1, s.Leader())
	require.True(t, s.Recovering())
	list, err := c.Schedulers(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)

	require.NoError(t, s.StartMember(0))
	require.Equal(t, 1, s.Leader())
	s.KillMember(1)
	s.KillMember(2)
	code, _ := curl(t, s, "GET", api+"/stores", "")
	require.Equal(t, 503, code, "one of three is no majority")
}

func TestMembers_TransferLeader_LosesPausesOnly(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Members: 3})
	require.NoError(t, s.PauseByOther(balanceLeader, time.Minute))
	require.NoError(t, s.TransferLeader(2))
	require.Equal(t, 2, s.Leader())
	for i, r := range three() {
		report(t, s, r, uint64(i+1))
	}
	for _, sch := range s.Schedulers() {
		require.Zero(t, sch.ResumeAt)
	}
}

func TestFault_KillsPDInTheCall_CallIsBrokenOff(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults})
	c, err := pd.Open(t.Context(), pd.Config{Addresses: s.URLs()})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.MarkRecovering", Do: s.Kill}))
	require.Error(t, c.MarkRecovering(t.Context()))
	require.False(t, s.Recovering())
	require.NoError(t, s.Start())
	require.Eventually(t, func() bool { return c.MarkRecovering(t.Context()) == nil }, patience, tick)
	require.True(t, s.Recovering())
}

func TestFault_RestartsPDInAGRPCCall_ClientComesBack(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults})
	c, err := pd.Open(t.Context(), pd.Config{Addresses: s.URLs()})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.UpdateServiceGCSafePoint", Position: fault.Slow, Do: func() {
		s.Kill()
		_ = s.Start()
	}}))
	_, err = c.HoldGC(t.Context(), "x", 7, time.Minute)
	require.True(t, failure.Is(err, failure.Limited), "%v", err)
	require.Eventually(t, func() bool {
		_, err = c.HoldGC(t.Context(), "x", 7, time.Minute)
		return err == nil
	}, patience, tick)
	require.Contains(t, s.ServiceSafePoints(), "x")
	require.Eventually(t, func() bool { // its stream of timestamps is another, and is opened again
		_, err = c.Now(t.Context())
		return err == nil
	}, patience, tick)
}

func TestFault_Refused_AnswersWithItsCode(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults})
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.Stores", Code: "[PD:etcd:ErrEtcdTxn]etcd transaction failed"}))
	code, body := curl(t, s, "GET", api+"/stores", "")
	require.Equal(t, 500, code)
	require.True(t, strings.HasPrefix(body, `"[PD:etcd:ErrEtcdTxn]`))
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.AllocID", Code: "ResourceExhausted"}))
	_, err := dial(t, s).AllocID(t.Context(), &pdpb.AllocIDRequest{Header: &pdpb.RequestHeader{ClusterId: s.ClusterID()}})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Empty(t, faults.Unreached())
}
