package hold_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// It kills the exporter and starts it again on a storage with five past runs, and with what cannot be read between
// the two (tidb-operator#5425, tidb-operator#5637, tidb-operator#5648): the new process shows the same of all of them,
// when the last backup was sealed too, and one that it cannot read ends nothing.
// Catalogue: H2.
func TestExporterKilledAndStartedAgain_ShowsAllPastRuns(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	store, err := objstore.Open(t.Context(), url, objstore.Config{})
	require.NoError(t, err)
	now := time.Now()
	fill := exportertest.New(t.Context(), store)
	for i := range 3 {
		id, run, at := cluster.BackupID(fmt.Sprint("b-", i)), cluster.RunID(fmt.Sprint("good-", i)), now.Add(time.Duration(i-5)*time.Hour)
		fill.Sealed(id, prod, run, at)
		fill.Report(exportertest.Backup(id, prod, run, at, 600, 3))
	}
	fill.Report(exportertest.Failed(prod, "failed", now.Add(-time.Hour)))
	fill.Lock(prod, "died", now.Add(-30*time.Minute), true)
	fill.Journal(prod, "died", "b-4", now.Add(-30*time.Minute), "preflight", "lock", "connect", "hold")
	require.NoError(t, fill.Err())

	before := scrapeAndKill(t, url)
	for _, line := range []string{
		`tisnap_backups{cluster="tidb/prod",state="sealed"} 3`,
		`tisnap_runs{cluster="tidb/prod",operation="backup",outcome="done"} 3`,
		`tisnap_runs{cluster="tidb/prod",operation="backup",outcome="failed"} 1`,
		`tisnap_runs{cluster="tidb/prod",operation="backup",outcome="died"} 1`,
		`tisnap_run_success{cluster="tidb/prod",operation="backup"} 0`,
	} {
		require.Contains(t, before, line)
	}
	require.True(t, slices.ContainsFunc(before, func(s string) bool {
		return strings.HasPrefix(s, `tisnap_backup_last_sealed_timestamp_seconds{cluster="tidb/prod"} `)
	}), before)
	_, err = store.Create(t.Context(), manifest.ReportKey("first", "garbage"), []byte("{"))
	require.NoError(t, err)
	_, err = store.Create(t.Context(), manifest.JournalKey("garbage", 1), []byte("null"))
	require.NoError(t, err)
	require.Equal(t, before, scrapeAndKill(t, url))
}

// scrapeAndKill starts the shipped exporter, reads its metrics of clusters once it has read the storage, and kills it.
func scrapeAndKill(t *testing.T, url string) []string {
	t.Helper()
	path, err := shipped.Program()
	require.NoError(t, err)
	ctx := within(t, time.Minute)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, "exporter", "--storage", url, "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	}()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	address := regexp.MustCompile(`http://\S+/ `).FindString(line)
	require.NotEmpty(t, address, line)
	var text string
	await(t, time.Minute, "the storage is read", func() bool {
		text = get(ctx, strings.TrimSpace(address)+"metrics")
		return strings.Contains(text, "tisnap_exporter_last_refresh_success 1")
	})
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, `cluster="`) && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// get is "" while the server does not answer.
func get(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }() // it is read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
