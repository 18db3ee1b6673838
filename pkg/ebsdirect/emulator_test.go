package ebsdirect_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest/suite"
)

// TestClient_Emulator_KeepsContract runs the contract against a server at TISNAP_TEST_EBS_EMULATOR (a URL), such as moto.
// TISNAP_TEST_EBS_LACKS names the traits that it lacks, with commas.
func TestClient_Emulator_KeepsContract(t *testing.T) {
	t.Parallel()
	url := os.Getenv("TISNAP_TEST_EBS_EMULATOR")
	if url == "" {
		t.Skip("TISNAP_TEST_EBS_EMULATOR is not set")
	}
	var lacks []suite.Trait
	for name := range strings.SplitSeq(os.Getenv("TISNAP_TEST_EBS_LACKS"), ",") {
		if name != "" {
			require.Contains(t, suite.Traits(), suite.Trait(name), "TISNAP_TEST_EBS_LACKS")
			lacks = append(lacks, suite.Trait(name))
		}
	}
	suite.Run(t, func(t *testing.T) suite.Subject {
		client, err := ebsdirect.Open(t.Context(), ebsdirect.Config{Region: "us-west-2", Endpoint: url})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		ec2, err := ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Endpoint: url})
		require.NoError(t, err)
		t.Cleanup(ec2.Close)
		return suite.Subject{
			Client: client, EC2: ec2, Run: time.Now().Format(time.RFC3339Nano), Lacks: lacks, Patience: 20 * time.Second,
		}
	})
}
