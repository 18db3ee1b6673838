package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestFromOutside_BackupRestoreResolveRelease runs where the names of PD and the stores do not resolve, as on a laptop: a map of
// addresses gets each command through.
func TestFromOutside_BackupRestoreResolveRelease(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{DNSNames: true})
	target := cluster.Name{Namespace: "tidb", Name: "copy"}
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)

	lines := []string{"# the source", "", "prod-pd.tidb.svc = 127.0.0.1 # by port-forward"}
	var flags []string
	for i := range 3 {
		lines = append(lines, fmt.Sprintf("prod-tikv-%d.prod-tikv-peer.tidb.svc=127.0.0.1", i))
		flags = append(flags, "--resolve", fmt.Sprintf("copy-tikv-%d.copy-tikv-peer.tidb.svc=127.0.0.1", i))
	}
	flags = append(flags, "--resolve", "copy-pd.tidb.svc=127.0.0.1")
	file := filepath.Join(t.TempDir(), "addresses")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))

	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole, "--address-map", file)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	e = p.run(t, "release", prod.String(), "--yes", "--storage", whole, "--address-map", file)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	e = p.run(t, append([]string{
		"restore", string(firstBackup), "--to", target.String(), "--storage", whole, "--keep-on-failure", "--timeout", "3s",
		"--resolve", "copy-tikv-0.copy-tikv-peer.tidb.svc=127.0.0.1:1",
	}, flags[2:]...)...)
	require.NotEqual(t, cli.ExitDone, e.code, "the map has a wrong address of a store")
	require.Contains(t, e.stderr, "copy-tikv-0.copy-tikv-peer.tidb.svc")
	e = p.run(t, append([]string{"resolve", target.String(), "--backup", string(firstBackup), "--storage", whole}, flags...)...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)

	e = p.run(t, "backup", prod.String(), "--storage", whole, "--resolve", "prod-pd.tidb.svc")
	assert.Equal(t, cli.ExitCode(2), e.code, e.stderr)
	assert.Contains(t, e.stderr, "want NAME=IP")
	e = p.run(t, "backup", prod.String(), "--storage", whole, "--address-map", file+"x")
	assert.Equal(t, cli.ExitCode(2), e.code, e.stderr)
}
