package ebsdirect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest/suite"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

const zone = cluster.Zone("us-west-2a")

// account is a stand-in with clients of its own.
type account struct {
	*ebsdirect.Client
	ec2    *ebs.Client
	server *ebstest.Server
	direct *ebsdirecttest.Server
	faults *fault.Plan
	clock  timescale.Clock
}

// newAccount starts a stand-in; change may alter its rules.
func newAccount(t *testing.T, change ...func(*ebsdirecttest.Rules)) *account {
	t.Helper()
	a := &account{clock: timescale.New(100), faults: &fault.Plan{}}
	rules := ebsdirecttest.DefaultRules()
	for _, c := range change {
		c(rules)
	}
	a.server = ebstest.New(ebstest.Config{Clock: a.clock, Faults: a.faults, Seed: 1})
	a.direct = ebsdirecttest.New(a.server, ebsdirecttest.Config{Clock: a.clock, Faults: a.faults, Rules: rules})
	require.NoError(t, a.server.Start())
	t.Cleanup(a.server.Close)
	var err error
	a.Client, err = ebsdirect.Open(t.Context(), ebsdirect.Config{
		Region: "us-west-2", Endpoint: a.server.URL(), Clock: a.clock,
	})
	require.NoError(t, err)
	t.Cleanup(a.Client.Close)
	a.ec2, err = ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Endpoint: a.server.URL(), Clock: a.clock})
	require.NoError(t, err)
	t.Cleanup(a.ec2.Close)
	t.Cleanup(func() { require.Empty(t, a.faults.Unreached(), "faults that never struck") })
	return a
}

func (a *account) fault(t *testing.T, r fault.Rule) {
	t.Helper()
	require.NoError(t, a.faults.Add(r))
}

func TestClient_StandIn_KeepsContract(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t *testing.T) suite.Subject {
		a := newAccount(t)
		return suite.Subject{Client: a.Client, EC2: a.ec2, Patience: 20 * time.Second}
	})
}
