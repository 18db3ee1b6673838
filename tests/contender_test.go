package tests

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// A backup of a name whose run lives is refused by one line. It stores nothing: neither under the id of the run that has
// the lock, whose report would be a failure otherwise, nor under one of its own.
func TestBackup_OfANameWhoseRunLives_IsRefusedByOneLineAndLeavesNoTrace(t *testing.T) {
	t.Parallel()
	rules, cut := ebstest.QuickRules(), make(chan struct{}, 16)
	rules.SnapshotBase = 6 * time.Minute // half a minute of the test's
	p := newPlace(t, testbed.Config{Scale: 12, Rules: rules, Observe: func(action string, _ time.Duration) {
		if action == "CreateSnapshots" {
			cut <- struct{}{}
		}
	}})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	backup := []string{"backup", prod.String(), "--name", string(firstBackup), "--storage", whole}
	first := make(chan ending, 1)
	go func() { first <- p.run(t, backup...) }()
	for range 3 {
		select {
		case <-cut:
		case <-ctx.Done():
			t.Fatal("the first backup made no snapshots")
		}
	}
	store := p.storage(t, whole)
	before := objectKeys(t, store, "")

	e := p.run(t, append(backup, "--lock-wait", "0s")...)
	require.Equal(t, cli.ExitCode(6), e.code, e.stderr)
	require.Empty(t, e.stdout)
	require.Contains(t, e.line("error: "), "run ")
	require.Equal(t, 1, strings.Count(e.stderr, "error: "))
	require.Empty(t, objectKeys(t, store, manifest.ReportsPrefix))
	var doc struct{ Run string }
	e = p.run(t, append(backup, "--lock-wait", "0s", "-o", "json")...)
	require.Equal(t, cli.ExitCode(6), e.code, e.stderr)
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
	require.NotEmpty(t, doc.Run)
	require.NotContains(t, strings.Join(before, " "), doc.Run, "the run that has the lock did not fail")
	for _, key := range objectKeys(t, store, "") {
		if strings.HasPrefix(key, manifest.RunsPrefix) {
			run, _, _ := strings.Cut(strings.TrimPrefix(key, manifest.RunsPrefix), "/")
			require.Contains(t, strings.Join(before, " "), run, "there is one run")
		}
	}

	select {
	case e = <-first:
	case <-ctx.Done():
		t.Fatal("the first backup did not end")
	}
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	e = p.run(t, "report", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.NotContains(t, e.stdout, "processes")
}

// A misspelt cluster leaves nothing that a monitor would show for ever.
func TestResolve_ClusterThatIsNotThere_LeavesNoTrace(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Scale: 12})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	store := p.storage(t, whole)
	before := objectKeys(t, store, "")
	e = p.run(t, "resolve", "tidb/nosuch", "--backup", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitCode(4), e.code, e.stderr)
	require.Empty(t, e.stdout, "the error is enough")
	require.Equal(t, before, objectKeys(t, store, ""))
}
