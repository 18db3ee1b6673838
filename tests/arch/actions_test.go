package arch_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

var update = flag.Bool("update", false, "write the IAM policy again")

func TestActions_Samples(t *testing.T) {
	t.Parallel()
	got := arch.Actions([]arch.Source{
		{Path: "pkg/ebs/a.go", Text: []byte("c.ec2.CreateVolume(ctx, in)\nin.X{TagSpecifications: x}\nc.sts.GetCallerIdentity(ctx, y)\nc.quotas.ListServiceQuotas(ctx, &in)")},
		{Path: "pkg/objstore/b.go", Text: []byte("s3.NewListObjectsV2Paginator(s.client, in)\ns.client.GetObject(ctx, in)\ns.client.Options()")},
		{Path: "pkg/ebsdirect/c.go", Text: []byte("out, err := c.api.GetSnapshotBlock(ctx, in)\nc.api.Options()")},
		{Path: "pkg/ebs/a_test.go", Text: []byte("c.ec2.DeleteVpc(ctx, in)")},
	})
	assert.Equal(t, []string{"ebs:GetSnapshotBlock", "ec2:CreateTags", "ec2:CreateVolume", "s3:GetObject", "s3:ListBucket", "servicequotas:ListServiceQuotas", "sts:GetCallerIdentity"}, got)
}

// The policy that the README asks users to attach is made of the calls in the adapters, and of nothing else.
func TestManifest_IsMadeOfTheActionsThatAreCalled(t *testing.T) {
	t.Parallel()
	var adapters []arch.Source
	for _, s := range sources(t) {
		folder := filepath.ToSlash(filepath.Dir(s.Path))
		if slices.Contains([]string{"pkg/ebs", "pkg/ebsdirect", "pkg/objstore"}, folder) {
			adapters = append(adapters, s)
		}
	}
	left := arch.NotGranted()
	actions := slices.DeleteFunc(arch.Actions(adapters), func(action string) bool { return left[action] != "" })
	policy, err := arch.PolicyOf(actions)
	require.NoError(t, err)
	want, err := policy.JSON()
	require.NoError(t, err)
	file := filepath.Join(root, "manifests/iam-policy.json")
	if *update {
		require.NoError(t, os.WriteFile(file, want, 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "make manifests writes it again")
}

// The role of the backups cannot remove what keeps them.
func TestManifest_LeavesOutWhatIsNotGranted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "manifests/iam-policy.json"))
	require.NoError(t, err)
	require.NotEmpty(t, arch.NotGranted())
	for action, why := range arch.NotGranted() {
		assert.NotContains(t, string(text), action, why)
	}
}

func TestPolicyOf_ActionWithoutStatement_Error(t *testing.T) {
	t.Parallel()
	_, err := arch.PolicyOf([]string{"ec2:DescribeVolumes", "ec2:RunInstances"})
	require.ErrorContains(t, err, "ec2:RunInstances")
	p, err := arch.PolicyOf([]string{"sts:GetCallerIdentity", "ec2:DeleteVolume"})
	require.NoError(t, err)
	require.Len(t, p.Statement, 1, "the caller's own identity needs no permission")
	require.NotEmpty(t, p.Statement[0].Condition)
}
