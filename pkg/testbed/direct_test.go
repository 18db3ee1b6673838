package testbed_test

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/testbed"
)

func TestTestbed_EBSDirect_AtTheAddressOfEC2AndS3(t *testing.T) {
	t.Parallel()
	bed, err := testbed.Start(t.Context(), testbed.Config{Dir: t.TempDir(), Nodes: 1, Scale: 50})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	client, err := ebsdirect.Open(t.Context(), ebsdirect.Config{Region: testbed.Region, Endpoint: bed.AWS()})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	id, err := client.Start(t.Context(), ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 1, Tags: ebs.Tags{ebs.TagRun: "run"}})
	require.NoError(t, err)
	found, _, ok := bed.EC2.Snapshot(id)
	require.True(t, ok)
	require.Equal(t, "run", found.Tags[ebs.TagRun])
}
