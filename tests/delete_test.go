package tests

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// Several backups go at once, by name or by tag; what became of each is in the table and in the JSON.
func TestDelete_SeveralByNameAndByTag(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	for _, args := range [][]string{
		{"--name", "one", "--tag", "drill"}, {"--name", "two"}, {"--name", "three", "--tag", "drill"}, {"--name", "four"},
	} {
		e := p.run(t, append([]string{"backup", prod.String(), "--storage", whole}, args...)...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	run := func(args ...string) ending {
		return p.run(t, append([]string{"delete", "--storage", whole, "--delete-rate", "100"}, args...)...)
	}
	for name, args := range map[string][]string{
		"neither a name nor a selector": {"--yes"},
		"both":                          {"one", "-l", "drill", "--yes"},
		"a run of several":              {"one", "two", "--run-id", "x", "--yes"},
		"no --yes":                      {"one", "two"},
	} {
		require.EqualValues(t, 2, run(args...).code, name)
	}
	require.EqualValues(t, 4, run("one", "tow", "--yes").code, "one of them is unknown")
	all := run("one", "two", "three", "four", "--yes")
	require.EqualValues(t, 6, all.code, "all restorable ones of a cluster")
	require.Contains(t, all.stdout, "0 deleted, 0 kept, 4 in use")
	require.Equal(t, "no backups\n", run("-l", "drill", "-n", "other", "--yes").stdout)

	dry := run("-l", "drill", "--dry-run")
	require.Equal(t, cli.ExitDone, dry.code, dry.stderr)
	require.Regexp(t, `(?m) delete +three .* drill +asked for$`, dry.stdout)
	require.Regexp(t, `(?m) delete +one .* drill +asked for$`, dry.stdout)
	require.Contains(t, dry.stdout, "2 would be deleted, 0 kept")

	done := run("-l", "drill", "--yes", "-o", "json")
	require.Equal(t, cli.ExitDone, done.code, done.stderr)
	var doc struct {
		Kind    string
		Backups []struct{ ID, Action string }
	}
	require.NoError(t, json.Unmarshal([]byte(done.stdout), &doc))
	require.Equal(t, "BackupDeletions", doc.Kind)
	require.Equal(t, []struct{ ID, Action string }{{"three", "deleted"}, {"one", "deleted"}}, doc.Backups)
	require.Equal(t, "backup/two\nbackup/four\n", p.run(t, "list", "--storage", whole, "-o", "name").stdout)
}
