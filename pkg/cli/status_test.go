package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// filled is the URL of a storage in a folder.
func filledIn(t *testing.T, fill func(*exportertest.Storage, objstore.Store)) string {
	t.Helper()
	url := "file://" + t.TempDir()
	store, err := objstore.Open(t.Context(), url, objstore.Config{})
	require.NoError(t, err)
	s := exportertest.New(t.Context(), store)
	fill(s, store)
	require.NoError(t, s.Err())
	return url
}

func exampleStorage(t *testing.T) string {
	t.Helper()
	return filledIn(t, func(s *exportertest.Storage, _ objstore.Store) { s.Example(time.Now()) })
}

// Each cluster has a row that fits a terminal, and what is not fine has its command.
func TestStatus_EachClusterAndWhatToDo(t *testing.T) {
	t.Parallel()
	url := exampleStorage(t)
	code, out, stderr := run(t, "status", "--storage", url)
	require.Equal(t, ExitDone, code, stderr)
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, " ") && !strings.Contains(line, ": ") {
			require.LessOrEqual(t, len(strings.TrimSpace(line)), narrow, line)
		}
	}
	require.Regexp(t, `(?m)^tidb/prod +24h00m ago +\S+.* backup 5\ds +yes +- `, out)
	require.Regexp(t, `(?m)^tidb/orders +30h00m ago +- +backup dead +yes +- `, out)
	require.Regexp(t, `(?m)^dev/sandbox +none +- +- +- +1 unready `, out)
	require.Contains(t, out, "  tisnap release tidb/orders --yes --storage "+url+"\n")
	require.Contains(t, out, "  tisnap logs 20261121t010000-00000bad --storage "+url+"\n")
	require.NotContains(t, out, "\ntidb/prod: ")
	code, out, _ = run(t, "status", "--storage", url, "-o", "name", "-n", "tidb")
	require.Equal(t, ExitDone, code)
	require.Equal(t, "cluster/tidb/orders\ncluster/tidb/prod\n", out)
	code, out, _ = run(t, "status", "--storage", url, "-o", "jsonpath={.items[?(@.cluster.name==\"orders\")].run.state}")
	require.Equal(t, ExitDone, code)
	require.Equal(t, "unfinished", out)
}

// What was done with a cluster's backups beside it is shown, once it was done at all, and what to do about it.
func TestStatus_DrillsArchivesAndCopies(t *testing.T) {
	t.Parallel()
	prod, now := cluster.Name{Namespace: "tidb", Name: "prod"}, time.Now()
	archive := journal.About{Operation: journal.Archive, Cluster: prod}
	drill := journal.About{Operation: journal.Drill, Cluster: prod}
	for name, row := range map[string]struct {
		fill func(*exportertest.Storage)
		want []string
		not  string
	}{
		"none": {func(*exportertest.Storage) {}, []string{`(?m)^tidb/prod +2h00m ago +- +- +- +- +-$`}, "DRILLED|ARCHIVED|COPIED|tidb/prod:"},
		"all were good": {func(s *exportertest.Storage) {
			s.Report(exportertest.Drill("b", prod, "r1", now.Add(-90*time.Minute)))
			s.Report(exportertest.Archive("b", prod, "r2", now.Add(-70*time.Minute)))
		}, []string{`CLUSTER .* DRILLED +ARCHIVED
`, `(?m)^tidb/prod .* 1h1[78]m ago +1h0[45]m ago$`}, "COPIED|tidb/prod:"},
		"copied, and archived now": {func(s *exportertest.Storage) {
			copied := exportertest.Archive("b", prod, "r2", now.Add(-70*time.Minute))
			copied.Operation = report.Copy
			s.Report(copied)
			s.Lock(archive.Lock(), "r3", now.Add(-time.Minute), false)
			s.Began(archive, "r3", now.Add(-time.Minute))
		}, []string{`CLUSTER .* COPIED
`, `(?m)^tidb/prod .* archive 1m .* 1h0[45]m ago$`}, "ARCHIVED|tidb/prod:"},
		"a drill failed": {func(s *exportertest.Storage) {
			s.Report(exportertest.Drill("b", prod, "r1", now.Add(-90*time.Minute)))
			failed := exportertest.Drill("b", prod, "r2", now.Add(-30*time.Minute))
			failed.Outcome, failed.ErrorKind = phase.Failed, failure.Unproven.String()
			s.Report(failed)
			stopped := exportertest.Drill("b", prod, "r3", now.Add(-15*time.Minute))
			stopped.Outcome, stopped.ErrorKind = phase.Failed, failure.Interrupted
			s.Report(stopped)
		}, []string{`(?m) 1[78]m ago unproven$`, `tidb/prod: its last drill, of b, failed 1[78]m ago \(unproven\)
  tisnap drill report r2 `}, "r3"},
		"a drill left what it made": {func(s *exportertest.Storage) {
			failed := exportertest.Drill("b", prod, "r2", now.Add(-30*time.Minute))
			failed.Outcome, failed.ErrorKind = phase.Failed, failure.Leaked.String()
			s.Report(failed)
		}, []string{`
  tisnap drill clean r2 --yes `}, "drill report"},
		"a drill died": {func(s *exportertest.Storage) {
			s.Lock(drill.Lock(), "r2", now.Add(-time.Hour), true)
			s.Began(drill, "r2", now.Add(-time.Hour))
		}, []string{`(?m)^tidb/prod .* drill dead `, `drill r2 died, .*
  tisnap drill clean r2 --yes `}, "release"},
		"an archive failed": {func(s *exportertest.Storage) {
			failed := exportertest.Archive("b", prod, "r2", now.Add(-30*time.Minute))
			failed.Outcome, failed.ErrorKind = phase.Failed, failure.Denied.String()
			s.Report(failed)
		}, []string{`its last archive, of b, failed 2[45]m ago \(denied\)
  tisnap logs r2 `}, "ARCHIVED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := filledIn(t, func(s *exportertest.Storage, _ objstore.Store) {
				s.Sealed("b", prod, "r0", now.Add(-2*time.Hour))
				row.fill(s)
			})
			code, out, stderr := run(t, "status", "--storage", url)
			require.Equal(t, ExitDone, code, stderr)
			for _, text := range row.want {
				require.Regexp(t, text, out)
			}
			require.NotRegexp(t, row.not, out)
			for line := range strings.Lines(strings.Split(out, "\n\n")[0]) {
				require.LessOrEqual(t, len(strings.TrimSpace(line)), narrow, line)
			}
		})
	}
}

// A run whose lock was not renewed for a minute is not shown as one that runs.
func TestStatus_LockIsNotRenewed_MayBeDead(t *testing.T) {
	t.Parallel()
	url := filledIn(t, func(s *exportertest.Storage, _ objstore.Store) {
		prod := cluster.Name{Namespace: "tidb", Name: "prod"}
		s.SilentLock(prod, "r1", time.Now().Add(-80*time.Second))
		s.Journal(prod, "r1", "b1", time.Now().Add(-80*time.Second), "preflight", "lock")
	})
	code, out, stderr := run(t, "status", "--storage", url)
	require.Equal(t, ExitDone, code, stderr)
	require.Regexp(t, `(?m)^tidb/prod .* backup dead\? `, out)
	_, out, _ = run(t, "status", "--storage", url, "-o", "jsonpath={.items[0].run.state} {.items[0].run.silent}")
	require.Equal(t, "running true", out)
}

// A monitor learns of each cluster without a young backup, and a storage that cannot vouch for one does not pass.
func TestStatus_MaxAge_Exits(t *testing.T) {
	t.Parallel()
	url := exampleStorage(t)
	empty := filledIn(t, func(*exportertest.Storage, objstore.Store) {})
	damaged := filledIn(t, func(s *exportertest.Storage, store objstore.Store) {
		s.Sealed("b", cluster.Name{Namespace: "tidb", Name: "prod"}, "r", time.Now())
		_, err := store.Create(t.Context(), manifest.LockKey(cluster.Name{Namespace: "tidb", Name: "x"}), []byte("{"))
		require.NoError(t, err)
	})
	for name, row := range map[string]struct {
		args string
		code ExitCode
		want []string
	}{
		"some too old":       {"--storage " + url, 11, []string{"2 of 4 clusters", "tidb/orders (30h00m ago)", "dev/sandbox (none)"}},
		"young enough":       {"tidb/prod --storage " + url, 0, nil},
		"named, restored":    {"dr/copy --storage " + url, 11, []string{"dr/copy (none)"}},
		"named, absent":      {"tidb/prod tidb/gone --storage " + url, 11, []string{"tidb/gone (none)"}},
		"none":               {"--storage " + empty, 11, []string{"no such cluster"}},
		"unreadable":         {"--storage " + damaged, 3, []string{"cannot be decoded", "locks/"}},
		"not a duration > 0": {"--storage " + empty + " --max-age 0s", 2, []string{"want more than 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run(t, append([]string{"status", "--max-age", "26h"}, strings.Fields(row.args)...)...)
			require.Equal(t, row.code, code, stderr)
			for _, part := range row.want {
				require.Contains(t, stderr, part)
			}
		})
	}
	code, _, stderr := run(t, "status", "tidb/gone", "--storage", url)
	require.Equal(t, ExitCode(4), code, stderr)
}

// frames ends the watch after so many frames.
type frames struct {
	text bytes.Buffer // not embedded: io.WriteString would bypass Write
	left int
	end  context.CancelFunc
}

func (f *frames) Write(p []byte) (int, error) {
	if f.left--; f.left == 0 {
		f.end()
	}
	return f.text.Write(p)
}

func TestStatus_Watch_RedrawsUntilInterrupted(t *testing.T) {
	t.Parallel()
	url := exampleStorage(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, stderr := &frames{left: 3, end: cancel}, &bytes.Buffer{}
		code := Run(ctx, []string{"status", "--watch", "--storage", url}, Streams{Out: out, Err: stderr, asTerminal: true}, Version{})
		require.Equal(t, ExitDone, code, stderr.String())
		require.Equal(t, 3, strings.Count(out.text.String(), "\x1b[H"))
		require.Equal(t, 3, strings.Count(out.text.String(), "tidb/prod "))
	})
	code, _, stderr := run(t, "status", "--watch", "--storage", url)
	require.Equal(t, ExitCode(2), code)
	require.Contains(t, stderr, "redraws a table on a terminal")
}
