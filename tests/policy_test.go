package tests

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

// policyActions is what manifests/iam-policy.json allows.
func policyActions(t *testing.T) []string {
	t.Helper()
	var policy struct {
		Statement []struct{ Action []string }
	}
	text, err := os.ReadFile("../manifests/iam-policy.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &policy))
	var actions []string
	for _, s := range policy.Statement {
		actions = append(actions, s.Action...)
	}
	require.NotEmpty(t, actions)
	return actions
}

// s3Calls lists S3's calls by the permission that they need.
func s3Calls() map[string][]string {
	return map[string][]string{
		"s3:GetObject":                        {"s3.GetObject", "s3.HeadObject"},
		"s3:PutObject":                        {"s3.PutObject"},
		"s3:DeleteObject":                     {"s3.DeleteObject", "s3.DeleteObjects"},
		"s3:ListBucket":                       {"s3.ListObjectsV2", "s3.ListObjects", "s3.HeadBucket"},
		"s3:GetBucketVersioning":              {"s3.GetBucketVersioning"},
		"s3:GetLifecycleConfiguration":        {"s3.GetBucketLifecycleConfiguration"},
		"s3:GetBucketObjectLockConfiguration": {"s3.GetObjectLockConfiguration"},
		"s3:GetObjectRetention":               {"s3.GetObjectRetention"},
		"s3:PutObjectRetention":               {"s3.PutObjectRetention"},
		"s3:ListBucketVersions":               {"s3.ListObjectVersions"},
		"s3:GetBucketLocation":                {"s3.GetBucketLocation"},
		"s3:ListAllMyBuckets":                 {"s3.ListBuckets"},
		"s3:CreateBucket":                     {"s3.CreateBucket"},
		"s3:DeleteBucket":                     {"s3.DeleteBucket"},
		"s3:anything not listed":              {"s3.Unsupported"},
	}
}

// refuseS3 makes every call of S3 that needs another permission than the allowed ones fail.
func refuseS3(t *testing.T, faults *fault.Plan, allowed []string) {
	t.Helper()
	for permission, calls := range s3Calls() {
		if slices.Contains(allowed, permission) {
			continue
		}
		for _, call := range calls {
			require.NoError(t, faults.Add(fault.Rule{Point: call, Position: fault.Before, Code: "AccessDenied", Times: -1}))
		}
	}
}

// useEBS does everything that tisnap's adapter can do, once, and returns the first error.
func useEBS(t *testing.T, allowed []string) error {
	t.Helper()
	const zone = cluster.Zone("us-west-2a")
	rules := ebstest.QuickRules()
	rules.Invisible = ebstest.Span{}
	clock := timescale.New(300)
	server := ebstest.New(ebstest.Config{Clock: clock, Rules: rules, Seed: 1})
	ebsdirecttest.New(server, ebsdirecttest.Config{Clock: clock, Rules: ebsdirecttest.DefaultRules()})
	require.NoError(t, server.Start())
	defer server.Close()
	instance := server.AddInstance(zone)
	data, err := server.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}, nil)
	require.NoError(t, err)
	require.NoError(t, server.Attach(data, instance))
	device, err := server.Device(data)
	require.NoError(t, err)
	_, err = device.WriteAt([]byte("a block"), 0)
	require.NoError(t, err)
	server.AllowOnly(allowed...)
	client, err := ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Endpoint: server.URL(), Clock: clock})
	require.NoError(t, err)
	defer client.Close()
	direct, err := ebsdirect.Open(t.Context(), ebsdirect.Config{Region: "us-west-2", Endpoint: server.URL(), Clock: clock})
	require.NoError(t, err)
	defer direct.Close()

	u := &ebsUser{t: t, Client: client, zone: zone, instance: instance, data: data, direct: direct}
	for _, step := range []func(context.Context) error{u.look, u.cut, u.archive, u.unarchive, u.fast, u.share, u.copy, u.lock, u.restore, u.modify, u.remove} {
		if err := step(t.Context()); err != nil {
			return err
		}
	}
	return nil
}

// ebsUser goes through a backup's, a restore's and gc's calls.
type ebsUser struct {
	*ebs.Client
	t        *testing.T
	zone     cluster.Zone
	instance cluster.InstanceID
	data     cluster.VolumeID
	snapshot cluster.SnapshotID
	copied   cluster.SnapshotID
	volume   cluster.VolumeID
	direct   *ebsdirect.Client
}

// archive reads a block of the snapshot, in its list and in that of its difference from itself.
func (u *ebsUser) archive(ctx context.Context) error {
	for b, err := range u.direct.Blocks(ctx, u.snapshot, 0) {
		if err == nil {
			_, err = u.direct.Read(ctx, b, make([]byte, ebsdirect.BlockSize))
		}
		if err != nil {
			return err
		}
	}
	for _, err := range u.direct.Changed(ctx, u.snapshot, u.snapshot, 0) {
		if err != nil {
			return err
		}
	}
	return nil
}

// unarchive makes a snapshot of one block.
func (u *ebsUser) unarchive(ctx context.Context) error {
	id, err := u.direct.Start(ctx, ebsdirect.NewSnapshot{Token: "token", SizeGiB: 1, Tags: ebs.Tags{ebs.TagRun: "r"}})
	if err != nil {
		return err
	}
	block := make([]byte, ebsdirect.BlockSize)
	sum := ebsdirect.Sum(sha256.Sum256(block))
	if err := u.direct.Put(ctx, id, 0, block, sum); err != nil {
		return err
	}
	if err := u.direct.Complete(ctx, id, 1, sha256.Sum256(sum[:])); err != nil {
		return err
	}
	return u.until(func() (bool, error) {
		found, err := u.DescribeSnapshots(ctx, []cluster.SnapshotID{id})
		return len(found) == 1 && found[0].State == ebs.SnapshotCompleted, err
	})
}

func (u *ebsUser) look(ctx context.Context) error {
	if _, err := u.AccountID(ctx); err != nil {
		return err
	}
	if _, err := u.ZoneIDs(ctx); err != nil {
		return err
	}
	if _, err := u.Quotas(ctx); err != nil {
		return err
	}
	if _, err := u.DescribeKey(ctx, "alias/aws/ebs"); err != nil {
		return err
	}
	if _, err := u.DefaultKey(ctx); err != nil {
		return err
	}
	_, err := u.Usage(ctx)
	return err
}

func (u *ebsUser) cut(ctx context.Context) error {
	made, err := u.Cut(ctx, ebs.CutRequest{Instance: u.instance, Volumes: []cluster.VolumeID{u.data}, Tags: ebs.Tags{ebs.TagRun: "r"}})
	if err != nil {
		return err
	}
	u.snapshot = made[0].ID
	return u.until(func() (bool, error) {
		found, err := u.DescribeSnapshots(ctx, []cluster.SnapshotID{u.snapshot})
		return len(found) == 1 && found[0].State == ebs.SnapshotCompleted, err
	})
}

func (u *ebsUser) fast(ctx context.Context) error {
	ids, zones := []cluster.SnapshotID{u.snapshot}, []cluster.Zone{u.zone}
	if _, err := u.EnableFastRestore(ctx, ids, zones); err != nil {
		return err
	}
	if _, err := u.FastRestores(ctx, ids); err != nil {
		return err
	}
	if err := u.DisableFastRestore(ctx, ids, zones); err != nil {
		return err
	}
	_, err := u.SnapshotLocks(ctx, ids)
	return err
}

func (u *ebsUser) share(ctx context.Context) error {
	other := []string{"222222222222"}
	if err := u.ShareSnapshot(ctx, u.snapshot, other); err != nil {
		return err
	}
	if _, err := u.SharedWith(ctx, u.snapshot); err != nil {
		return err
	}
	return u.UnshareSnapshot(ctx, u.snapshot, other)
}

func (u *ebsUser) copy(ctx context.Context) error {
	made, err := u.CopySnapshot(ctx, ebs.CopyRequest{Snapshot: u.snapshot, Region: "us-west-2", Tags: ebs.Tags{ebs.TagRun: "r"}})
	u.copied = made
	return err
}

func (u *ebsUser) lock(ctx context.Context) error {
	_, err := u.LockSnapshot(ctx, ebs.LockRequest{Snapshot: u.copied, Mode: ebs.LockGovernance, Until: time.Now().AddDate(0, 0, 30)})
	return err
}

func (u *ebsUser) restore(ctx context.Context) error {
	v, err := u.CreateVolume(ctx, ebs.VolumeRequest{
		Token: "token", Snapshot: u.snapshot, Zone: u.zone, Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 10},
		Tags: ebs.Tags{ebs.TagRun: "r"},
	})
	if err != nil {
		return err
	}
	u.volume = v.ID
	if _, err := u.Initializations(ctx, []cluster.VolumeID{v.ID}); err != nil {
		return err
	}
	return u.until(func() (bool, error) {
		found, err := u.DescribeVolumes(ctx, []cluster.VolumeID{v.ID})
		return len(found) == 1 && found[0].State == ebs.VolumeAvailable, err
	})
}

func (u *ebsUser) modify(ctx context.Context) error {
	if _, err := u.ModifyVolume(ctx, u.volume, cluster.VolumeSpec{IOPS: 4000}); err != nil {
		return err
	}
	return u.until(func() (bool, error) {
		found, err := u.Modifications(ctx, []cluster.VolumeID{u.volume})
		return len(found) == 1 && found[0].State == ebs.ModificationCompleted, err
	})
}

func (u *ebsUser) remove(ctx context.Context) error {
	if err := u.DeleteVolume(ctx, u.volume); err != nil {
		return err
	}
	return u.DeleteSnapshot(ctx, u.snapshot)
}

// until asks until the answer is yes or an error.
func (u *ebsUser) until(ask func() (bool, error)) error {
	var err error
	require.Eventually(u.t, func() bool {
		var done bool
		done, err = ask()
		return done || err != nil
	}, 20*time.Second, 5*time.Millisecond)
	return err
}

// useS3 does everything that tisnap's store can do, once, and returns the first error.
func useS3(t *testing.T, allowed []string) error {
	t.Helper()
	faults := &fault.Plan{}
	server := objstoretest.New(objstoretest.Config{Faults: faults})
	require.NoError(t, server.Start(t.Context()))
	defer func() { require.NoError(t, server.Close()) }()
	server.CreateBucket("bucket")
	refuseS3(t, faults, allowed)
	store, err := objstore.Open(t.Context(), "s3://bucket/prefix", objstore.Config{Endpoint: server.URL(), Region: "us-west-2"})
	require.NoError(t, err)
	version, err := store.Create(t.Context(), "key", []byte("body"))
	if err != nil {
		return err
	}
	if _, err := store.Replace(t.Context(), "key", []byte("other"), version); err != nil {
		return err
	}
	if _, _, err := store.Get(t.Context(), "key"); err != nil {
		return err
	}
	if _, err := store.List(t.Context(), ""); err != nil {
		return err
	}
	bucket, ok := objstore.BucketOf(store)
	require.True(t, ok)
	if _, err := bucket.Versioning(t.Context()); err != nil {
		return err
	}
	if _, err := bucket.Lifecycle(t.Context()); err != nil {
		return err
	}
	if _, err := bucket.ObjectLock(t.Context()); err != nil {
		return err
	}
	server.LockBucket(bucket.Name())
	kept := objstore.Retention{Mode: objstore.RetainGovernance, Until: time.Now().Add(time.Hour)}
	if _, err := bucket.Retain(t.Context(), "key", "", kept); err != nil {
		return err
	}
	return store.Delete(t.Context(), "key")
}

// The policy is complete: with it and nothing more, all calls are answered.
func TestPolicy_NothingMoreAllowed_EverythingWorks(t *testing.T) {
	t.Parallel()
	actions := policyActions(t)
	require.NoError(t, useEBS(t, actions))
	require.NoError(t, useS3(t, actions))
}

// The policy is minimal: without any one of its actions, something is refused, and the hint names what is missing.
func TestPolicy_OneActionLess_RefusedByName(t *testing.T) {
	t.Parallel()
	all := policyActions(t)
	for _, missing := range all {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			rest := slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == missing })
			var err error
			if strings.HasPrefix(missing, "s3:") {
				err = useS3(t, rest)
			} else {
				err = useEBS(t, rest)
			}
			require.Error(t, err, "nothing needs it")
			require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
			require.Contains(t, failure.HintOf(err), missing)
		})
	}
}

// underPolicy runs the program against a testbed whose EC2 and S3 allow what the policy does and no more.
func underPolicy(t *testing.T, faults *fault.Plan, run func(*testbed.Testbed) round.Tisnap) func(*testbed.Testbed) round.Tisnap {
	t.Helper()
	actions := policyActions(t)
	refuseS3(t, faults, actions)
	return func(bed *testbed.Testbed) round.Tisnap {
		bed.EC2.AllowOnly(actions...)
		return run(bed)
	}
}
