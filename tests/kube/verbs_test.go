package kube_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/plane"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// roleless runs the shipped program as accounts of a control plane, against a testbed on it.
type roleless struct {
	system
	own *plane.Plane
	bed *testbed.Testbed
}

// run is a command of a new service account with these rules.
func (r roleless) run(t *testing.T, rules []rbacv1.PolicyRule, args ...string) (output string, code int) {
	t.Helper()
	account := r.serviceAccount(t, rules)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, r.own.WriteKubeconfig(path, token(t, r.core, r.namespace, account, account), r.namespace))
	program, err := shipped.Program()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, append(args, "--progress", "plain")...)
	cmd.Env = append(append(os.Environ(), r.bed.Env()...), "KUBECONFIG="+path, "TISNAP_STORAGE=s3://"+testbed.Bucket+"/verbs")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	return out.String(), cmd.ProcessState.ExitCode()
}

// Each verb of the roles in manifests/ is taken away once: the checks of the backup or the restore name it, before anything is
// held or made.
func TestRoles_EachVerbTakenAway_IsNamedByTheChecks_NothingIsLeft(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	s, own := openOwn(t, 0)
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{
		Dir: t.TempDir(), Kubeconfig: own.Kubeconfig("admin"), Nodes: 3, Scale: 20, Rules: ebstest.QuickRules(),
	})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	prod := cluster.Name{Namespace: "tidb", Name: "prod"}
	source, err := bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	r := roleless{s, own, bed}
	forBackups, forRestores := clusterRole(t, "../../manifests/rbac-backup.yaml"), clusterRole(t, "../../manifests/rbac.yaml")

	inEC2, inKubernetes := len(bed.EC2.Volumes()), len(bed.Objects.List("persistentvolumes", ""))
	t.Run("backup", func(t *testing.T) { // one after the other: they are of one cluster
		for _, rule := range forBackups {
			if rule.APIGroups[0] == operator2.Group() {
				continue // not installed here, and so not needed
			}
			verb, resource := rule.Verbs[0], rule.Resources[0]
			output, code := r.run(t, without(forBackups, verb, resource), "backup", prod.String(), "--name", "none")
			require.Equal(t, 7, code, output)
			require.Contains(t, output, `cannot `+verb+` resource "`+resource+`"`)
		}
		require.Empty(t, source.Held())
		require.Empty(t, bed.EC2.Snapshots())
	})
	output, code := r.run(t, forBackups, "backup", prod.String(), "--name", "b")
	require.Zero(t, code, output)
	t.Run("restore", func(t *testing.T) {
		for _, p := range kube.Permissions(nil) {
			if strings.HasSuffix(p, " "+operator2.Clusters) {
				continue // as above
			}
			t.Run(p, func(t *testing.T) {
				t.Parallel()
				verb, resource, _ := strings.Cut(p, " ")
				output, code := r.run(t, without(forRestores, verb, resource), "restore", "b", "--to", "tidb/"+verb+"-"+resource)
				require.Equal(t, 7, code, output)
				require.Regexp(t, `(may not|cannot) `+verb+` (resource ")?`+resource, output)
			})
		}
	})
	require.Len(t, bed.EC2.Volumes(), inEC2)
	require.Len(t, bed.Objects.List("tidbclusters", prod.Namespace), 1)
	require.Len(t, bed.Objects.List("persistentvolumes", ""), inKubernetes)
}
