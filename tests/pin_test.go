package tests

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// A backup that is pinned stays, and every command that shows it gives the reason, until it is unpinned.
func TestPin_KeepsABackup_UntilItIsUnpinned(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	run := func(args ...string) ending { return p.run(t, append(args, "--storage", whole)...) }
	for _, name := range []string{"first", "second"} {
		e := run("backup", prod.String(), "--name", name)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	for name, args := range map[string][]string{
		"no reason":        {"pin", "first"},
		"an end before":    {"pin", "first", "--reason", "audit", "--until", "2020-01-01"},
		"no end":           {"pin", "first", "--reason", "audit", "--until", "soon"},
		"too long":         {"pin", "first", "--reason", "audit", "--until", "36501d"},
		"unpin, no --yes":  {"unpin", "first"},
		"latest, of first": {"pin", "first", "--of", prod.String(), "--reason", "audit"},
	} {
		require.EqualValues(t, 2, run(args...).code, name)
	}
	require.EqualValues(t, 4, run("pin", "third", "--reason", "audit").code)
	require.EqualValues(t, 4, run("unpin", "third", "--yes").code)

	dry := run("pin", "first", "--reason", "audit", "--until", "180d", "--dry-run")
	require.Equal(t, cli.ExitDone, dry.code, dry.stderr)
	require.Contains(t, dry.stdout, "first would be pinned until ")
	require.Equal(t, "first is not pinned\n", run("unpin", "first", "--yes").stdout)
	done := run("pin", "first", "--reason", "audit", "--until", "180d", "-o", "json")
	require.Equal(t, cli.ExitDone, done.code, done.stderr)
	var doc struct {
		Kind, Backup string
		Pin          struct {
			Reason string
			Until  time.Time
		}
	}
	require.NoError(t, json.Unmarshal([]byte(done.stdout), &doc))
	require.Equal(t, "BackupPin", doc.Kind)
	require.Equal(t, "audit", doc.Pin.Reason)
	require.InDelta(t, 180*24, time.Until(doc.Pin.Until).Hours(), 1)
	require.EqualValues(t, 6, run("pin", "first", "--reason", "audit", "--until", "1d").code, "never shorter")

	require.Regexp(t, `(?m)^kept +pinned until .* UTC: audit$`, run("describe", "first").stdout)
	require.Regexp(t, `(?m) first .* until .* UTC: audit$`, run("list", "-o", "wide").stdout)
	require.Equal(t, "audit", run("list", "-o", "jsonpath={.items[?(@.id==\"first\")].pin.reason}").stdout)
	e := run("delete", "first", "--yes")
	require.EqualValues(t, 6, e.code, e.stderr)
	require.Contains(t, e.line("error: "), "it is pinned until ")
	require.Contains(t, e.line("hint: "), "tisnap unpin first")
	pruned := run("prune", "--keep-last", "1", "--yes")
	require.Equal(t, cli.ExitDone, pruned.code, pruned.stderr)
	require.Regexp(t, `(?m) keep +first .* pinned until .*: audit$`, pruned.stdout)

	e = run("unpin", "first", "--dry-run")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stdout, "first would be unpinned (it is pinned until ")
	e = run("unpin", "first", "--yes", "-o", "name")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Equal(t, "backup/first\n", e.stdout)
	e = run("delete", "first", "--yes", "--delete-rate", "100")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
}
