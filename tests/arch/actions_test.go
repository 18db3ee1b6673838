package arch_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

func TestActions_Samples(t *testing.T) {
	t.Parallel()
	got := arch.Actions([]arch.Source{
		{Path: "pkg/ebs/a.go", Text: []byte("c.ec2.CreateVolume(ctx, in)\nin.X{TagSpecifications: x}\nc.sts.GetCallerIdentity(ctx, y)")},
		{Path: "pkg/objstore/b.go", Text: []byte("s3.NewListObjectsV2Paginator(s.client, in)\ns.client.GetObject(ctx, in)\ns.client.Options()")},
		{Path: "pkg/ebs/a_test.go", Text: []byte("c.ec2.DeleteVpc(ctx, in)")},
	})
	assert.Equal(t, []string{"ec2:CreateTags", "ec2:CreateVolume", "s3:GetObject", "s3:ListBucket", "sts:GetCallerIdentity"}, got)
}

// The policy that users are told to attach allows what the adapters call, and nothing else.
func TestManifest_ListsTheActionsThatAreCalled(t *testing.T) {
	t.Parallel()
	var policy struct {
		Statement []struct{ Action []string }
	}
	text, err := os.ReadFile(filepath.Join(root, "manifests/iam-policy.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &policy))
	var allowed []string
	for _, s := range policy.Statement {
		allowed = append(allowed, s.Action...)
	}
	slices.Sort(allowed)
	var adapters []arch.Source
	for _, s := range sources(t) {
		if folder := filepath.ToSlash(filepath.Dir(s.Path)); folder == "pkg/ebs" || folder == "pkg/objstore" {
			adapters = append(adapters, s)
		}
	}
	assert.Equal(t, arch.Actions(adapters), allowed)
}
