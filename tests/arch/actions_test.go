package arch_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		{Path: "pkg/ebs/a_test.go", Text: []byte("c.ec2.DeleteVpc(ctx, in)")},
	})
	assert.Equal(t, []string{"ec2:CreateTags", "ec2:CreateVolume", "s3:GetObject", "s3:ListBucket", "servicequotas:ListServiceQuotas", "sts:GetCallerIdentity"}, got)
}

// The policy that the README asks users to attach is made of the calls in the adapters, and of nothing else.
func TestManifest_IsMadeOfTheActionsThatAreCalled(t *testing.T) {
	t.Parallel()
	var adapters []arch.Source
	for _, s := range sources(t) {
		if folder := filepath.ToSlash(filepath.Dir(s.Path)); folder == "pkg/ebs" || folder == "pkg/objstore" {
			adapters = append(adapters, s)
		}
	}
	later := arch.NotCalledYet()
	actions := slices.DeleteFunc(arch.Actions(adapters), func(action string) bool { return later[action] != nil })
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

// An action that is left out of the policy is one that no shipped command can come to.
func TestManifest_LeavesOutWhatNobodyCalls(t *testing.T) {
	t.Parallel()
	for action, methods := range arch.NotCalledYet() {
		for _, s := range sources(t) {
			folder := filepath.ToSlash(filepath.Dir(s.Path))
			if folder == "pkg/ebs" || strings.HasPrefix(folder, "pkg/ebs/ebstest") || strings.HasSuffix(s.Path, "_test.go") {
				continue
			}
			for _, method := range methods {
				assert.NotContains(t, string(s.Text), "."+method+"(", "%s calls it: %s needs a rule of the policy", s.Path, action)
			}
		}
	}
}

func TestPolicyOf_ActionWithoutStatement_Error(t *testing.T) {
	t.Parallel()
	_, err := arch.PolicyOf([]string{"ec2:DescribeVolumes", "ec2:RunInstances"})
	require.ErrorContains(t, err, "ec2:RunInstances")
	p, err := arch.PolicyOf([]string{"sts:GetCallerIdentity", "ec2:DeleteVolume"})
	require.NoError(t, err)
	require.Len(t, p.Statement, 1, "who asks for its own identity needs no permission")
	require.NotEmpty(t, p.Statement[0].Condition)
}
