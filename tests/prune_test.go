package tests

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// What a night's CronJob does: two backups are there, the rules keep one of them and the one with a tag; what goes, goes
// from EC2 and the storage, and the rest can be listed.
func TestPrune_KeepsByRules_AndShowsWhy(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	for _, args := range [][]string{{"--name", "first", "--tag", "release-1"}, {"--name", "second"}, {"--name", "third"}} {
		e := p.run(t, append([]string{"backup", prod.String(), "--storage", whole}, args...)...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	prune := func(args ...string) ending {
		return p.run(t, append([]string{"prune", "--storage", whole}, args...)...)
	}
	require.EqualValues(t, 2, prune("--yes").code, "no rule")
	require.EqualValues(t, 2, prune("--keep-last", "1").code, "neither --yes nor --dry-run")

	dry := prune("--keep-last", "1", "--keep-tag", "release-1", "--dry-run")
	require.Equal(t, cli.ExitDone, dry.code, dry.stderr)
	require.Regexp(t, `(?m)^[-0-9]+ [:0-9]+ +keep +third .* last$`, dry.stdout)
	require.Regexp(t, `(?m) delete +second .* no rule keeps it$`, dry.stdout)
	require.Regexp(t, `(?m) keep +first .* release-1 +tag release-1$`, dry.stdout)
	require.Contains(t, dry.stdout, "1 would be deleted, 2 kept")
	named := prune(prod.Name, "--keep-last", "1", "--keep-tag", "release-1", "--dry-run")
	require.Equal(t, dry, named, "the kubeconfig has its namespace, as for the backup")
	require.Contains(t, prune(prod.Name, "-n", "other", "--keep-last", "1", "--dry-run").stdout, "no backups")
	without := prune(prod.Name, "--keep-last", "1", "--dry-run", "--context", "none")
	require.EqualValues(t, 2, without.code, without.stderr)
	require.Contains(t, without.line("hint: "), "write it as NAMESPACE/NAME")

	done := prune("--keep-last", "1", "--keep-tag", "release-1", "--yes", "--delete-rate", "100", "-o", "json")
	require.Equal(t, cli.ExitDone, done.code, done.stderr)
	var doc struct {
		Kind    string
		Backups []struct{ ID, Action string }
	}
	require.NoError(t, json.Unmarshal([]byte(done.stdout), &doc))
	require.Equal(t, "PruneReport", doc.Kind)
	require.Equal(t, []struct{ ID, Action string }{{"third", "keep"}, {"second", "deleted"}, {"first", "keep"}}, doc.Backups)
	list := p.run(t, "list", "--storage", whole, "-o", "json")
	require.NotContains(t, list.stdout, `"second"`)
	require.Contains(t, list.stdout, `"release-1"`)
}
