package br_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// piped is a run of the shipped br whose stdout and stderr are two pipes, as the Operator's backup-manager has them.
type piped struct {
	cmd            *exec.Cmd
	stdout, stderr shipped.Output
}

// runPiped starts br in an environment with these variables, BR_LOG_TO_TERM not among them by default.
func (p *place) runPiped(t *testing.T, env []string, args ...string) *piped {
	t.Helper()
	program, err := shipped.BR()
	require.NoError(t, err)
	r := &piped{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)}
	r.cmd.Env = slices.DeleteFunc(append(p.Env(), "TMPDIR="+p.dir), func(v string) bool { return strings.HasPrefix(v, "BR_LOG_TO_TERM=") })
	r.cmd.Env = append(r.cmd.Env, env...)
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = p.dir, &r.stdout, &r.stderr
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// scanned is what backup-manager's scanner finds on stdout: the texts that it looks for, and the ts behind the last one.
func (r *piped) scanned() (found []string, resolvedTS string) {
	lines := bufio.NewScanner(strings.NewReader(r.stdout.String()))
	for lines.Scan() {
		for _, text := range []string{"GC is paused", "Schedulers are paused", "All ready", "EBS backup success"} {
			_, rest, ok := strings.Cut(lines.Text(), text)
			if !ok {
				continue
			}
			found = append(found, text)
			if ts := regexp.MustCompile(`resolved_ts=(\d+)`).FindStringSubmatch(rest); ts != nil {
				resolvedTS = ts[1]
			}
		}
	}
	return found, resolvedTS
}

// Wherever the log goes, the scanner finds its lines on stdout, once each. Without BR_LOG_TO_TERM the log is a file, which
// has these lines too, and stdout has nothing else; with it nothing is written to a file.
func TestLog_WhereverItGoes_TheScannerFindsItsLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		file bool // --log-file is given
		term bool // the log goes to stdout
		json bool // --log-format=json
	}{
		"to the terminal, as the Operator's Jobs":    {env: []string{"BR_LOG_TO_TERM=\x01"}, term: true},
		"to the terminal, with a file in br.options": {env: []string{"BR_LOG_TO_TERM=\x01"}, file: true, term: true},
		"to the terminal by an empty variable":       {env: []string{"BR_LOG_TO_TERM="}, term: true},
		"to the terminal, as JSON":                   {env: []string{"BR_LOG_TO_TERM=\x01"}, term: true, json: true},
		"to a file, as JSON":                         {file: true, json: true},
		"to a file of its own choice":                {},
		"to the file that br.options names":          {file: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			var options []string
			if c.file {
				options = []string{"--log-file", filepath.Join(p.dir, "named.log")}
			}
			step, logged := `["step finished"]`, "resolved_ts="
			if c.json {
				options = append(options, "--log-format=json")
				step, logged = `"message":"step finished"`, `"resolved_ts":`
			}
			pause := p.runPiped(t, c.env, append([]string{"operator", "pause-gc-and-schedulers", "--pd=" + p.pd()}, options...)...)
			require.Eventually(t, func() bool { return strings.Contains(pause.stdout.String(), "All ready") }, patience, 20*time.Millisecond)
			backup := p.runPiped(t, c.env, append([]string{
				"backup", "full", "--type=aws-ebs", "--volume-file=" + p.volumeFile(), "--pd=" + p.pd(), "--storage=" + storage,
				"--s3.region=" + testbed.Region, "--s3.endpoint=" + p.AWS(), underPause,
			}, options...)...)
			require.NoError(t, backup.cmd.Wait(), &backup.stdout)
			require.NoError(t, pause.cmd.Process.Signal(syscall.SIGTERM))
			require.NoError(t, pause.cmd.Wait(), &pause.stdout)

			held, _ := pause.scanned()
			require.ElementsMatch(t, []string{"GC is paused", "Schedulers are paused", "All ready"}, held)
			done, ts := backup.scanned()
			require.Equal(t, []string{"EBS backup success"}, done)
			require.Equal(t, strconv.FormatUint(p.backupMeta(t).Cluster.ResolvedTS, 10), ts)

			logs, err := filepath.Glob(filepath.Join(p.dir, "*br.log*"))
			require.NoError(t, err)
			if c.file && !c.term {
				logs = append(logs, filepath.Join(p.dir, "named.log"))
			}
			if c.term {
				require.Empty(t, logs)
				require.NoFileExists(t, filepath.Join(p.dir, "named.log"))
				require.Contains(t, backup.stdout.String(), step)
				require.Empty(t, backup.stderr.String())
				return
			}
			require.Equal(t, 2, strings.Count(backup.stdout.String(), "\n"), "nothing but the lines that are looked for: %s", &backup.stdout)
			require.Contains(t, backup.stderr.String(), "Detail BR log in ")
			require.NotEmpty(t, logs)
			var text strings.Builder
			for _, file := range logs {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				text.Write(content)
			}
			for _, part := range []string{"All ready", step, "EBS backup success", logged + ts} {
				require.Contains(t, text.String(), part)
			}
		})
	}
}
