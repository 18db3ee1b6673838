package ebs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestOpen_NoRegion_Usage(t *testing.T) {
	t.Parallel()
	_, err := ebs.Open(t.Context(), ebs.Config{})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
}

func TestOpen_UnknownProfile_Usage(t *testing.T) {
	t.Parallel()
	_, err := ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Profile: "absent"})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func TestOpen_EndpointInEnvironment_Used(t *testing.T) {
	server := ebstest.New(ebstest.Config{})
	require.NoError(t, server.Start())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL())
	t.Setenv("AWS_REGION", "eu-central-1")
	client, err := ebs.Open(t.Context(), ebs.Config{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.Equal(t, "eu-central-1", client.Region())
	id, err := client.AccountID(t.Context())
	require.NoError(t, err)
	require.Equal(t, server.Account(), id)
	zones, err := client.Zones(t.Context())
	require.NoError(t, err)
	require.Len(t, zones, 3)
}

func TestOpen_NoCredentials_Denied(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	_, err := ebs.Open(t.Context(), ebs.Config{Region: "us-west-2"})
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
}

func TestCall_ConnectionRefused_UnknownWithHintAtDeadline(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // long enough for a first refusal
	defer cancel()
	_, err := a.Zones(ctx)
	require.Error(t, err)
	require.ErrorContains(t, err, "connection refused")
	require.Contains(t, failure.HintOf(err), "endpoint")
}

func TestAccountID_StandIn_ItsNumber(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Account = "210987654321" })
	id, err := a.AccountID(t.Context())
	require.NoError(t, err)
	require.Equal(t, "210987654321", id)
	require.Equal(t, "us-west-2", a.Region())
}

func TestProbe_Refused_DeniedNamesActionAndChangesNothing(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	from := a.source(t)
	before := a.server.MutatingCalls()
	for action, target := range map[ebs.Action]string{
		ebs.ActionCreateSnapshots: string(i), ebs.ActionDeleteSnapshot: string(from.ID),
		ebs.ActionCreateVolume: string(from.ID), ebs.ActionDeleteVolume: string(volumes[0]),
		ebs.ActionLockSnapshot: string(from.ID),
	} {
		t.Run(string(action), func(t *testing.T) {
			require.NoError(t, a.Probe(t.Context(), action, target, zone), action)
			a.server.Deny(string(action)[len("ec2:"):])
			err := a.Probe(t.Context(), action, target, zone)
			require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
			require.Contains(t, failure.HintOf(err), string(action))
		})
	}
	require.Equal(t, before, a.server.MutatingCalls())
	err := a.Probe(t.Context(), "ec2:RunInstances", "", zone)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func TestCut_Request_RefusedBeforeAnyCall(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	for name, req := range map[string]ebs.CutRequest{
		"no instance": {Volumes: volumes},
		"no volumes":  {Instance: i},
		"twice":       {Instance: i, Volumes: append(volumes, volumes...)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Cut(t.Context(), req)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%s: %v", name, err)
		})
	}
	require.Empty(t, a.server.MutatingCalls())
	require.Zero(t, a.faults.Calls("ec2.DescribeInstances"))
}

func TestError_FromEC2_TextIsShort(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	a.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before, Code: "SnapshotLimitExceeded"})
	_, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.EqualError(t, err, "create snapshots of "+string(i)+
		": SnapshotLimitExceeded: refused by a fault (request 00000000-0000-0000-0000-000000000000)")
}

func TestCut_BootVolumeWanted_Included(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	var boot cluster.VolumeID
	for _, v := range a.server.Volumes() {
		if v.Instance == i && v.ID != volumes[0] {
			boot = v.ID
		}
	}
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: []cluster.VolumeID{boot}})
	require.NoError(t, err)
	require.Len(t, made, 1)
	require.Equal(t, boot, made[0].Volume)
}

func TestCut_TooManyTags_UsageAndNothingMade(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	tags := ebs.Tags{}
	for n := range 51 {
		tags[fmt.Sprintf("key-%d", n)] = "value"
	}
	_, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Tags: tags})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.Empty(t, a.server.Snapshots())
}

func TestCreateVolume_Request_RefusedBeforeAnyCall(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	a := newAccount(t)
	good := request(ebs.Snapshot{ID: "snap-0123456789abcdef0"}, "token")
	for name, change := range map[string]func(*ebs.VolumeRequest){
		"no snapshot": func(r *ebs.VolumeRequest) { r.Snapshot = "" },
		"no zone":     func(r *ebs.VolumeRequest) { r.Zone = "" },
		"no token":    func(r *ebs.VolumeRequest) { r.Token = "" },
		"long token":  func(r *ebs.VolumeRequest) { r.Token = fmt.Sprintf("%065d", 1) },
		"odd token":   func(r *ebs.VolumeRequest) { r.Token = "tök" },
		"key only":    func(r *ebs.VolumeRequest) { r.KMSKey = "key" },
		"bad spec":    func(r *ebs.VolumeRequest) { r.Spec.IOPS = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			req := good
			change(&req)
			_, err := a.CreateVolume(t.Context(), req)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%s: %v", name, err)
		})
	}
	require.Empty(t, a.server.MutatingCalls())
}

func TestDescribeVolumes_OnAnOutpost_HasItsARN(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0"
	a := newAccount(t)
	_, volumes := a.instance(t, 2)
	require.NoError(t, a.server.PutOnOutpost(volumes[1], arn))
	found, err := a.DescribeVolumes(t.Context(), volumes)
	require.NoError(t, err)
	for _, v := range found {
		want := ""
		if v.ID == volumes[1] {
			want = arn
		}
		require.Equal(t, want, v.Outpost)
	}
}

func TestCreateVolume_Encryption_KeptOrAsked(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 2)
	require.NoError(t, a.server.Encrypt(volumes[0], "key-1"))
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	for _, from := range a.await(t, made) {
		req := request(from, "kept "+string(from.ID))
		kept, err := a.CreateVolume(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, from.Volume == volumes[0], from.Encrypted)
		require.Equal(t, from.Encrypted, kept.Encrypted)
		require.Equal(t, from.KMSKey, kept.KMSKey)
		req.Token, req.Encrypted, req.KMSKey = "new "+string(from.ID), true, "key-2"
		asked, err := a.CreateVolume(t.Context(), req)
		require.NoError(t, err)
		require.True(t, asked.Encrypted)
		require.Equal(t, "key-2", asked.KMSKey)
	}
}

func TestCreateVolume_PendingSnapshot_Unready(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.SnapshotBase = time.Hour
		c.Rules.Invisible = ebstest.Span{}
	})
	i, volumes := a.instance(t, 1)
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	_, err = a.CreateVolume(t.Context(), request(made[0], "token"))
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	pending, err := a.PendingSnapshots(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, pending)
}

func TestDescribe_ManyIDs_BatchedAndPaged(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	var ids []cluster.VolumeID
	for range 1200 {
		id, err := a.server.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, ebs.Tags{"k": "v"})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	found, err := a.DescribeVolumes(t.Context(), append(ids, "vol-0fffffffffffffff0"))
	require.NoError(t, err)
	require.Len(t, found, 1200)
	require.Equal(t, 9, a.faults.Calls("ec2.DescribeVolumes"), "seven batches; the one with the unknown id again by filter, in two pages")
	found, err = a.FindVolumes(t.Context(), ebs.Tags{"k": "v"})
	require.NoError(t, err)
	require.Len(t, found, 1200)
	require.Equal(t, 11, a.faults.Calls("ec2.DescribeVolumes"), "two pages")
}

func TestCut_ManyInstances_AllWithinTheBucket(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) { c.Rules.PendingInAccount = 1000 })
	const instances = 130
	var (
		cutting sync.WaitGroup
		errs    = make([]error, instances)
	)
	for n := range instances {
		i, volumes := a.instance(t, 1)
		cutting.Go(func() { _, errs[n] = a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes}) })
	}
	cutting.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Len(t, a.server.Snapshots(), instances)
	require.Len(t, a.server.MutatingCalls(), instances, "throttled in spite of pacing")
}
