package tests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestAbort_RestoreThatLeftAll_IsTakenAwayByOneCommand lets a restore end with everything that it made in place, as a
// killed one does: gc names it, and one command takes away TidbCluster, claims, persistent volumes and EBS volumes.
func TestAbort_RestoreThatLeftAll_IsTakenAwayByOneCommand(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t, testbed.Config{DNSNames: true, Scale: 10})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	reach := []string{"--resolve", "prod-pd.tidb.svc=127.0.0.1", "--resolve", "copy-pd.tidb.svc=127.0.0.1"}
	for _, of := range []string{"prod-tikv-0.prod", "prod-tikv-1.prod", "prod-tikv-2.prod"} {
		reach = append(reach, "--resolve", of+"-tikv-peer.tidb.svc=127.0.0.1")
	}
	e := p.run(t, append([]string{"backup", prod.String(), "--name", string(firstBackup), "--storage", whole}, reach...)...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	e = p.run(t, append([]string{
		"restore", string(firstBackup), "--to", "tidb/copy", "--storage", whole, "--keep-on-failure", "--timeout", "3s", "--run-id", "killed", "--via", "direct",
	}, reach...)...)
	require.NotEqual(t, cli.ExitDone, e.code, "its stores cannot be reached")
	require.NotNil(t, p.bed.Kube.Get("tidbclusters", "tidb", "copy"))
	made := func() []ebs.Volume {
		return slices.DeleteFunc(p.bed.EC2.Volumes(), func(v ebs.Volume) bool { return v.Tags[ebs.TagRun] != "killed" })
	}
	require.Len(t, made(), 6)

	e = p.run(t, "gc", "--storage", whole, "--older-than", "0s", "--kept", "--dry-run", "-o", "wide")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Regexp(t, `keep +cluster +tidb/copy +killed .*tisnap restore abort killed`, e.stdout)
	e = p.run(t, "gc", "--storage", whole, "--older-than", "0s", "--kept", "--cluster", "--dry-run", "-o", "wide")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Regexp(t, `delete +cluster +tidb/copy +killed`, e.stdout)
	require.Regexp(t, `delete +volume +vol-`, e.stdout, "with its volumes")
	for _, row := range []struct {
		limit []string
		there bool
	}{
		{[]string{"tidb/copy"}, true}, {[]string{"tidb/other"}, false}, {[]string{"--run-id", "killed"}, true}, {[]string{"--run-id", "other"}, false},
	} {
		t.Run("gc of "+strings.Join(row.limit, " "), func(t *testing.T) {
			e := p.run(t, append([]string{"gc", "--storage", whole, "--older-than", "0s", "--kept", "--cluster", "--dry-run"}, row.limit...)...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			require.Equal(t, row.there, strings.Contains(e.stdout, "vol-"), e.stdout)
		})
	}
	e = p.run(t, "restore", "abort", "killed", "--storage", whole, "--dry-run")
	require.Equal(t, cli.ExitDone, e.code, e.stderr+e.stdout)
	require.Regexp(t, `delete +volume +vol-`, e.stdout)
	require.Len(t, made(), 6, "a dry run changes nothing")
	require.NotNil(t, p.bed.Kube.Get("tidbclusters", "tidb", "copy"))

	e = p.run(t, "restore", "abort", "killed", "--storage", whole, "--yes", "--delete-rate", "100")
	require.Equal(t, cli.ExitDone, e.code, e.stderr+e.stdout)
	require.Empty(t, made())
	require.Nil(t, p.bed.Kube.Get("tidbclusters", "tidb", "copy"))
	require.NotNil(t, p.bed.Kube.Get("tidbclusters", "tidb", "prod"))
	for _, claim := range p.bed.Kube.List("persistentvolumeclaims", "tidb") {
		require.Contains(t, claim.GetName(), "prod")
	}
	for _, pv := range p.bed.Kube.List("persistentvolumes", "") {
		require.NotContains(t, pv.GetName(), "tisnap-")
	}
	e = p.run(t, "restore", "abort", "none", "--storage", whole, "--yes")
	require.Equal(t, cli.ExitCode(4), e.code)
}
