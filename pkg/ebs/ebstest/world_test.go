package ebstest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

const (
	prod, other  = "111111111111", "222222222222"
	west, europe = "us-west-2", "eu-west-1"
)

// world is two accounts in two regions, at real speed: tests jump ahead.
type world struct {
	clock            timescale.Clock
	home, away       *wire // of the account prod: in the west, and in Europe
	guest, guestAway *wire // of the other one
}

func startWorld(t *testing.T, change ...func(*ebstest.Rules)) *world {
	t.Helper()
	w := &world{clock: timescale.New(1)}
	wires := []**wire{&w.home, &w.away, &w.guest, &w.guestAway}
	var configs []ebstest.Config
	for n, at := range []struct{ account, region string }{{prod, west}, {prod, europe}, {other, west}, {other, europe}} {
		rules := ebstest.QuickRules()
		rules.Invisible, rules.Creating, rules.SnapshotSpacing = ebstest.Span{}, ebstest.Span{}, 0
		rules.Copies.Rate, rules.Copies.Fails = disk.PageSize, ebstest.Span{Least: time.Minute, Most: time.Minute} // a page a second
		for _, c := range change {
			c(rules)
		}
		*wires[n] = &wire{faults: &fault.Plan{}, http: &http.Client{Transport: &http.Transport{}}}
		t.Cleanup((*wires[n]).http.CloseIdleConnections)
		configs = append(configs, ebstest.Config{
			Region: at.region, Account: at.account, Clock: w.clock, Rules: rules, Faults: (*wires[n]).faults,
		})
	}
	all := ebstest.NewWorld(configs...)
	require.NoError(t, all.Start())
	t.Cleanup(all.Close)
	for n, s := range all.Servers() {
		(*wires[n]).Server = s
	}
	return w
}

// cut is a completed snapshot, after so many pages of the volume were written from the first on.
func (w *world) cut(t *testing.T, v cluster.VolumeID, pages int64) string {
	t.Helper()
	device, err := w.home.Device(v)
	require.NoError(t, err)
	for n := range pages {
		_, err = device.WriteAt([]byte("x"), n*disk.PageSize)
		require.NoError(t, err)
	}
	made, err := w.home.sdk().CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{
		VolumeId: aws.String(string(v)), TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeSnapshot, Tags: []types.Tag{{Key: aws.String("of"), Value: aws.String("prod")}},
		}},
	})
	require.NoError(t, err)
	w.clock.Advance(time.Hour)
	return *made.SnapshotId
}

func copyOf(id string, change ...func(*ec2.CopySnapshotInput)) *ec2.CopySnapshotInput {
	in := &ec2.CopySnapshotInput{SourceRegion: aws.String(west), SourceSnapshotId: aws.String(id)}
	for _, c := range change {
		c(in)
	}
	return in
}

func withKey(key string) func(*ec2.CopySnapshotInput) {
	return func(in *ec2.CopySnapshotInput) { in.Encrypted, in.KmsKeyId = aws.Bool(true), aws.String(key) }
}

// copied asks for a copy and returns its id.
func (w *wire) copied(t *testing.T, in *ec2.CopySnapshotInput) cluster.SnapshotID {
	t.Helper()
	out, err := w.sdk().CopySnapshot(t.Context(), in)
	require.NoError(t, err)
	return cluster.SnapshotID(*out.SnapshotId)
}

// one is a snapshot of the account, as the stand-in knows it.
func (w *wire) one(t *testing.T, id cluster.SnapshotID) ebs.Snapshot {
	t.Helper()
	p, _, ok := w.Snapshot(id)
	require.True(t, ok)
	return p
}

func keyOf(account, region, name string) string {
	return fmt.Sprintf("arn:aws:kms:%s:%s:key/%s", region, account, name)
}
