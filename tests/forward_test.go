package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestPortForward_BackupRestoreReleaseWithoutAnyAddress runs where the names of PD and the stores do not resolve, as on a laptop, and
// without a map of addresses: all goes through the API server. The cluster has a domain of its own, and is restored into another
// namespace.
func TestPortForward_BackupRestoreReleaseWithoutAnyAddress(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{DNSNames: true, ClusterDomain: "k8s.example.org"})
	target := cluster.Name{Namespace: "copies", Name: "copy"}
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)

	e := p.run(t, "backup", prod.String(), "--storage", whole, "--via", "direct")
	require.NotEqual(t, cli.ExitDone, e.code)
	require.Contains(t, e.stderr, "--via port-forward")

	p.bed.Kube.Deny("create", "pods/portforward")
	e = p.refused(t, "backup", prod.String(), "--storage", whole)
	require.Equal(t, cli.ExitCode(7), e.code, e.stderr)
	require.Contains(t, e.line("hint: "), "grant create pods/portforward")
	e = p.refused(t, "restore", string(firstBackup), "--to", target.String(), "--storage", whole, "--via", "port-forward")
	require.NotEqual(t, cli.ExitDone, e.code, e.stderr)
	p.bed.Kube.Allow("create", "pods/portforward")

	e = p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stderr, "connecting through port forwards")
	assert.Contains(t, e.stdout, "through port forwards: 4 pods by")
	assert.NotContains(t, e.stdout, "opened during the hold", "they are opened before")
	e = p.run(t, "release", prod.String(), "--yes", "--storage", whole, "--via", "port-forward")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	assert.NotContains(t, e.stderr, "connecting through port forwards", "it was asked for")

	p.bed.Kube.Deny("create", "pods/portforward")
	for _, via := range []string{"auto", "port-forward"} { // the target has no address that could be tried
		e = p.refused(t, "restore", string(firstBackup), "--to", target.String(), "--storage", whole, "--via", via)
		require.Equal(t, cli.ExitCode(7), e.code, e.stderr)
		require.Contains(t, e.stderr, "may not create pods/portforward in namespace copies")
	}
	p.bed.Kube.Allow("create", "pods/portforward")
	e = p.run(t, "restore", string(firstBackup), "--to", target.String(), "--storage", whole, "--via", "port-forward")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Eventually(t, func() bool { return p.bed.Kube.Forwards() == 0 }, 30*time.Second, 10*time.Millisecond, "a connection is left")

	e = p.run(t, "backup", prod.String(), "--storage", whole, "--via", "tunnel")
	assert.Equal(t, cli.ExitCode(2), e.code, e.stderr)
}
