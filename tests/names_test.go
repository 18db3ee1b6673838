package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// Scripts hand what one command names to the next: each that makes, shows or deletes something names it.
func TestOutputName_EachCommandThatHasObjects(t *testing.T) { //nolint:tparallel // they follow each other
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 6})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"backup", prod.String(), "--name", "first", "--dry-run"}, "backup/first\n"},
		{[]string{"backup", prod.String(), "--name", "first"}, "backup/first\n"},
		{[]string{"describe", "first"}, "backup/first\n"},
		{[]string{"describe", "latest", "--of", prod.String()}, "backup/first\n"},
		{[]string{"restore", "latest", "--before", "1ms ago", "--to", "tidb/copy", "--dry-run"}, "cluster/tidb/copy\n"},
		{[]string{"restore", "first", "--to", "tidb/copy", "--dry-run"}, "cluster/tidb/copy\n"},
		{[]string{"restore", "first", "--to", "tidb/copy", "--print-manifest"}, "cluster/tidb/copy\n"},
		{[]string{"restore", "first", "--to", "tidb/copy", "--run-id", "copying"}, "cluster/tidb/copy\n"},
		{[]string{"status", "copying"}, "run/copying\n"},
		{[]string{"hold", "status", prod.String()}, "cluster/tidb/prod\n"},
		{[]string{"release", prod.String(), "--yes"}, "cluster/tidb/prod\n"},
		{[]string{"prune", "--keep-last", "1", "--dry-run"}, ""},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			e := p.run(t, append(c.args, "--storage", whole, "-o", "name")...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			require.Equal(t, c.want, e.stdout)
		})
	}
	e := p.run(t, "delete", "first", "--last", "--yes", "--delete-rate", "100", "--storage", whole, "-o", "name")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Regexp(t, `(?s)^(snapshot/snap-[0-9a-f]+\n)+backup/first\n$`, e.stdout)
}
