package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/pod"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// names are what the DNS of a Kubernetes cluster with this domain resolves for PD and the stores of a TidbCluster.
func names(of cluster.Name, stores int, domain string) []string {
	all := []string{of.Name + "-pd." + of.Namespace + ".svc." + domain}
	for i := range stores {
		all = append(all, fmt.Sprintf("%s-tikv-%d.%s-tikv-peer.%s.svc.%s", of.Name, i, of.Name, of.Namespace, domain))
	}
	return all
}

// shippedIn runs the shipped program to its end in a pod, with the testbed's AWS and without a kubeconfig.
func shippedIn(t *testing.T, p *pod.Pod, bed *testbed.Testbed, args ...string) (output string, code int) {
	t.Helper()
	program, err := shipped.Program()
	require.NoError(t, err)
	cmd := p.Command(t.Context(), program, append(args, "--progress", "plain")...)
	for _, value := range bed.Env() {
		if !strings.HasPrefix(value, "KUBECONFIG=") {
			cmd.Env = append(cmd.Env, value)
		}
	}
	cmd.Env = append(cmd.Env, "TISNAP_STORAGE=s3://"+testbed.Bucket+"/in-cluster")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	return out.String(), cmd.ProcessState.ExitCode()
}

// The shipped program in a pod, as a Job runs it: without a kubeconfig, on a root that cannot be written, with the roles of
// manifests/rbac.yaml, which grant no port forward, and with the cluster's DNS, whose domain is not the usual one. A name
// without a namespace is in the pod's own; the clusters of other namespaces are named with theirs.
func TestPod_ShippedProgram_BacksUpAndRestoresInSeveralNamespaces(t *testing.T) {
	t.Parallel()
	needsPod(t)
	const domain, stores = "k8s.example.org", 3
	s, own := openOwn(t, 0)
	_, err := own.Account(t.Context(), "../../manifests/rbac.yaml")
	require.NoError(t, err)
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{
		Dir: t.TempDir(), Kubeconfig: own.Kubeconfig("admin"), Nodes: 6, Scale: 20, Rules: ebstest.QuickRules(),
		DNSNames: true, ClusterDomain: domain,
	})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	here, there := cluster.Name{Namespace: "tidb", Name: "prod"}, cluster.Name{Namespace: "dev", Name: "prod"}
	restored := cluster.Name{Namespace: "tidb", Name: "copy"}
	require.NoError(t, bed.Objects.AddNamespace(there.Namespace))
	var hosts []string
	for _, name := range []cluster.Name{here, there, restored} {
		hosts = append(hosts, names(name, stores, domain)...)
	}
	for _, name := range []cluster.Name{here, there} {
		_, err := bed.CreateCluster(t.Context(), name, stores)
		require.NoError(t, err)
	}
	p := newPod(t, own, here.Namespace, token(t, s.core, here.Namespace, "tisnap", "pod"), hosts...)

	done := func(want string, args ...string) {
		output, code := shippedIn(t, p, bed, args...)
		require.Zero(t, code, "%v: %s", args, output)
		require.Contains(t, output, want)
		require.NotContains(t, output, "port forward", "a pod reaches them directly")
	}
	require.Error(t, p.Command(t.Context(), "touch", "/of-a-pod").Run(), "the root cannot be written")
	done(here.String(), "backup", here.Name, "--name", "of-here")
	done(there.String(), "backup", there.String(), "--name", "of-there")
	done(restored.String(), "restore", "of-there", "--to", restored.Name)
	done("of-here", "prune", here.Name, "--keep-last", "1", "--yes")
	require.NotNil(t, bed.Objects.Get("tidbclusters", restored.Namespace, restored.Name))
	output, code := shippedIn(t, p, bed, "backup", here.Name, "--context", "elsewhere")
	require.Equal(t, 2, code, output)
}
