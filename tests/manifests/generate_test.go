package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// What tisnap generate prints for Kubernetes is what kustomize builds, object by object, except for the user's names.
func TestGenerate_PrintsTheObjectsOfKustomize(t *testing.T) {
	t.Parallel()
	program, err := Program(t.Context(), t.TempDir())
	require.NoError(t, err)
	made, err := Generate(t.Context(), program, Nightly()...)
	require.NoError(t, err)
	want := kustomized(t, "nightly")
	require.Len(t, made, len(want))
	for key, u := range want {
		require.Contains(t, made, key)
		object := typed(t, u)
		if settings, ok := object.(*corev1.ConfigMap); ok {
			settings.Data["TISNAP_STORAGE"] = "s3://backups/prod"
		}
		assert.Equal(t, object, typed(t, made[key]), key)
	}

	made, err = Generate(t.Context(), program, []string{"rbac", "tidb", "--drill"},
		[]string{"cronjob", "tidb/prod", "--drill", "--image=REGISTRY/tisnap:v1", "--storage=s3://backups/prod", "--region=us-west-2"})
	require.NoError(t, err)
	for key, u := range kustomized(t, "drill") {
		require.Contains(t, made, key)
		object := typed(t, u)
		if settings, ok := object.(*corev1.ConfigMap); ok {
			settings.Data["TISNAP_STORAGE"] = "s3://backups/prod"
		}
		assert.Equal(t, object, typed(t, made[key]), key)
	}

	for folder, flag := range map[string]string{
		"archive": "--kms=false", "overlays/archive-kms": "--kms", "overlays/archive-workers": "--workers=4",
	} {
		made, err = Generate(t.Context(), program, []string{
			"cronjob", "tidb/prod", "--archive", "--image=REGISTRY/tisnap:v1", "--storage=s3://backups/prod", "--region=us-west-2",
			"--repo=s3://archives/prod", flag,
		})
		require.NoError(t, err)
		want = kustomized(t, folder)
		require.Len(t, made, len(want))
		for key, u := range want {
			object := typed(t, u)
			if settings, ok := object.(*corev1.ConfigMap); ok {
				settings.Data["TISNAP_STORAGE"], settings.Data["TISNAP_REPO"] = "s3://backups/prod", "s3://archives/prod"
			}
			assert.Equal(t, object, typed(t, made[key]), key)
		}
	}

	other, err := Generate(t.Context(), program,
		[]string{"rbac", "db-1", "db-2", "-n=ops", "--service-account=saver", "--tls-cluster=main", "--role-arn=arn:aws:iam::444455556666:role/x"},
		[]string{"cronjob", "db-1/main", "-n=ops", "--service-account=saver", "--image=a/b:c", "--storage=s3://acme", "--region=eu-west-1", "--keep-last=3"})
	require.NoError(t, err)
	for _, u := range other {
		if account := (rbacv1.Subject{Kind: "ServiceAccount", Name: "saver", Namespace: "ops"}); len(subjects(typed(t, u))) > 0 {
			assert.Equal(t, []rbacv1.Subject{account}, subjects(typed(t, u)), u.GetName())
		}
	}
	for _, key := range []string{
		"ServiceAccount ops/saver", "Role db-1/saver", "Role db-2/saver", "RoleBinding db-2/saver", "Role db-1/saver-tls",
		"ClusterRole /saver-volumes", "ConfigMap ops/tisnap-nightly", "CronJob ops/tisnap-nightly", "NetworkPolicy ops/tisnap",
	} {
		assert.Contains(t, other, key)
	}
}

// What is printed for Terraform is in its language, and refers to nothing that is not there; neither does what is in
// manifests/terraform.
func TestTerraform_IsOne(t *testing.T) {
	t.Parallel()
	program, err := Program(t.Context(), t.TempDir())
	require.NoError(t, err)
	checked := map[string][]byte{}
	for _, way := range []string{"pod-identity", "irsa"} {
		text, err := exec.CommandContext(t.Context(), program, "generate", "terraform", "--storage=s3://acme/db", "--region=eu-west-1",
			"-n=ops", "--trust="+way, "--eks-cluster=acme", "--account=444455556666", "--oidc-provider=oidc.eks.eu-west-1.amazonaws.com/id/0A1").Output()
		require.NoError(t, err)
		assert.NotContains(t, string(text), "file(")
		assert.Equal(t, way == "pod-identity", strings.Contains(string(text), "aws_eks_pod_identity_association"))
		checked[way] = text
	}
	for _, file := range []string{"tisnap.tf", "pod-identity.tf"} {
		text, err := os.ReadFile(filepath.Join(root, "terraform", file))
		require.NoError(t, err)
		checked["manifests"] = append(checked["manifests"], text...)
	}
	for from, text := range checked {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			file, diagnostics := hclsyntax.ParseConfig(text, from, hcl.InitialPos)
			require.False(t, diagnostics.HasErrors(), diagnostics.Error())
			body, ok := file.Body.(*hclsyntax.Body)
			require.True(t, ok)
			defined := map[string]bool{"path.module": true}
			for _, block := range body.Blocks {
				if block.Type == "resource" {
					defined[block.Labels[0]+"."+block.Labels[1]] = true
				}
				if block.Type == "locals" {
					for name := range block.Body.Attributes {
						defined["local."+name] = true
					}
				}
			}
			assert.Contains(t, defined, "aws_iam_role_policy.pods")
			for _, block := range body.Blocks {
				for _, name := range references(block.Body) {
					assert.True(t, defined[name], name)
				}
			}
		})
	}
}

// references are the names that a block refers to, as TYPE.NAME.
func references(body *hclsyntax.Body) (names []string) {
	for _, attribute := range body.Attributes {
		for _, variable := range attribute.Expr.Variables() {
			if step, ok := variable[1].(hcl.TraverseAttr); ok {
				names = append(names, variable.RootName()+"."+step.Name)
			}
		}
	}
	for _, block := range body.Blocks {
		names = append(names, references(block.Body)...)
	}
	return names
}
