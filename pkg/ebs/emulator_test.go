package ebs_test

import (
	"net/http"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest/suite"
)

// TestClient_Emulator_KeepsContract runs the contract against a server at TISNAP_TEST_EC2_EMULATOR (a URL), such as
// moto or LocalStack. TISNAP_TEST_EC2_LACKS names the traits that it lacks, with commas.
func TestClient_Emulator_KeepsContract(t *testing.T) {
	t.Parallel()
	url := os.Getenv("TISNAP_TEST_EC2_EMULATOR")
	if url == "" {
		t.Skip("TISNAP_TEST_EC2_EMULATOR is not set")
	}
	lacks := lacking(t, os.Getenv("TISNAP_TEST_EC2_LACKS"))
	suite.Run(t, func(t *testing.T) suite.Subject {
		var clients []*ebs.Client
		for _, c := range []ebs.Config{
			{Region: "us-west-2"}, {Region: "eu-west-1"},
			{Region: "eu-west-1", RoleARN: "arn:aws:iam::" + guestAccount + ":role/guest"},
		} {
			c.Endpoint = url
			client, err := ebs.Open(t.Context(), c)
			require.NoError(t, err)
			t.Cleanup(client.Close)
			clients = append(clients, client)
		}
		api := newAPI(t, url)
		s := suite.Subject{
			Client: clients[0], Away: clients[1], Guest: clients[2], Zone: zone, Patience: 20 * time.Second,
			Run: time.Now().Format(time.RFC3339Nano), Lacks: lacks, Instance: emulatedInstances(api),
		}
		s.Archive, s.Unarchive = tiers(api)
		s.Key, s.Disable = keys(kms.NewFromConfig(emulated(t, url)))
		return s
	})
}

func lacking(t *testing.T, names string) []suite.Trait {
	t.Helper()
	var traits []suite.Trait
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			require.Contains(t, suite.Traits(), suite.Trait(name), "TISNAP_TEST_EC2_LACKS")
			traits = append(traits, suite.Trait(name))
		}
	}
	return traits
}

// newAPI is Amazon's own client, for what this package does not call.
func newAPI(t *testing.T, url string) *ec2.Client {
	t.Helper()
	return ec2.NewFromConfig(emulated(t, url))
}

func emulated(t *testing.T, url string) aws.Config {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-west-2"))
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	cfg.HTTPClient = &http.Client{Transport: transport}
	cfg.BaseEndpoint = aws.String(url)
	return cfg
}

// keys make a KMS key, and disable one.
func keys(api *kms.Client) (create func(*testing.T) string, disable func(*testing.T, string)) {
	create = func(t *testing.T) string {
		t.Helper()
		made, err := api.CreateKey(t.Context(), &kms.CreateKeyInput{})
		require.NoError(t, err)
		return aws.ToString(made.KeyMetadata.Arn)
	}
	disable = func(t *testing.T, key string) {
		t.Helper()
		_, err := api.DisableKey(t.Context(), &kms.DisableKeyInput{KeyId: aws.String(path.Base(key))})
		require.NoError(t, err)
	}
	return create, disable
}

// tiers move a snapshot to the archive tier and back.
func tiers(api *ec2.Client) (archive, unarchive func(*testing.T, cluster.SnapshotID)) {
	archive = func(t *testing.T, id cluster.SnapshotID) {
		t.Helper()
		_, err := api.ModifySnapshotTier(t.Context(), &ec2.ModifySnapshotTierInput{
			SnapshotId: aws.String(string(id)), StorageTier: types.TargetStorageTierArchive,
		})
		require.NoError(t, err)
	}
	unarchive = func(t *testing.T, id cluster.SnapshotID) {
		t.Helper()
		_, err := api.RestoreSnapshotTier(t.Context(), &ec2.RestoreSnapshotTierInput{
			SnapshotId: aws.String(string(id)), PermanentRestore: aws.Bool(true),
		})
		require.NoError(t, err)
	}
	return archive, unarchive
}

// emulatedInstances starts instances by the API, for there is no other way in.
func emulatedInstances(api *ec2.Client) func(*testing.T, int) (cluster.InstanceID, []cluster.VolumeID) {
	return func(t *testing.T, volumes int) (cluster.InstanceID, []cluster.VolumeID) {
		t.Helper()
		run, err := api.RunInstances(t.Context(), &ec2.RunInstancesInput{
			ImageId: aws.String("ami-12345678"), InstanceType: types.InstanceTypeT3Micro,
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			Placement: &types.Placement{AvailabilityZone: aws.String(string(zone))},
		})
		require.NoError(t, err)
		i := run.Instances[0].InstanceId
		var ids []cluster.VolumeID
		for n := range volumes {
			v, err := api.CreateVolume(t.Context(), &ec2.CreateVolumeInput{
				AvailabilityZone: aws.String(string(zone)), Size: aws.Int32(10), VolumeType: types.VolumeTypeGp3,
			})
			require.NoError(t, err)
			_, err = api.AttachVolume(t.Context(), &ec2.AttachVolumeInput{
				InstanceId: i, VolumeId: v.VolumeId, Device: aws.String("/dev/sd" + string(rune('f'+n))),
			})
			require.NoError(t, err)
			ids = append(ids, cluster.VolumeID(*v.VolumeId))
		}
		return cluster.InstanceID(*i), ids
	}
}
