package ebs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest/suite"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

const (
	speed = 300 // virtual seconds in a real one
	zone  = cluster.Zone("us-west-2a")
)

// account is a stand-in with a client of its own.
type account struct {
	*ebs.Client
	server *ebstest.Server
	faults *fault.Plan
}

// newAccount starts a stand-in; change may alter its configuration.
func newAccount(t *testing.T, change ...func(*ebstest.Config)) *account {
	t.Helper()
	cfg := ebstest.Config{Clock: timescale.New(speed), Faults: &fault.Plan{}, Rules: ebstest.QuickRules(), Seed: 1}
	for _, c := range change {
		c(&cfg)
	}
	server := ebstest.New(cfg)
	require.NoError(t, server.Start())
	t.Cleanup(server.Close)
	client, err := ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Endpoint: server.URL(), Clock: cfg.Clock})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	t.Cleanup(func() { require.Empty(t, cfg.Faults.Unreached(), "faults that never struck") })
	return &account{Client: client, server: server, faults: cfg.Faults}
}

// instance is an instance with so many 10 GiB data volumes.
func (a *account) instance(t *testing.T, volumes int) (cluster.InstanceID, []cluster.VolumeID) {
	t.Helper()
	i := a.server.AddInstance(zone)
	ids := make([]cluster.VolumeID, volumes)
	for n := range ids {
		id, err := a.server.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}, nil)
		require.NoError(t, err)
		require.NoError(t, a.server.Attach(id, i))
		ids[n] = id
	}
	return i, ids
}

func (a *account) fault(t *testing.T, r fault.Rule) {
	t.Helper()
	require.NoError(t, a.faults.Add(r))
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	require.Eventually(t, check, 20*time.Second, 5*time.Millisecond, what)
}

func TestClient_StandIn_KeepsContract(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t *testing.T) suite.Subject {
		all := newWorld(t, []ebstest.Config{
			{Region: "us-west-2"}, {Region: "eu-west-1"}, {Region: "eu-west-1", Account: guestAccount},
		}, func(c *ebstest.Config) { c.Rules.Tiers.Archival, c.Rules.Tiers.Restore = 5*time.Second, 5*time.Second })
		a := all[0]
		s := suite.Subject{
			Client: a.Client, Away: all[1].Client, Guest: all[2].Client, Zone: zone, Instance: a.instance,
			Patience: 20 * time.Second,
		}
		s.Archive, s.Unarchive = tiers(newAPI(t, a.server.URL()))
		made := 0
		s.Key = func(*testing.T) string {
			made++
			return fmt.Sprintf("arn:aws:kms:us-west-2:123456789012:key/%d", made)
		}
		s.Disable = func(_ *testing.T, key string) { a.server.SetKey(key, ebs.Key{State: ebs.KeyDisabled}) }
		return s
	})
}
