package resolve_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// A restore of the user's own manifest is started in the background and followed by its journal; one that its checks refuse
// is refused at once, by the same exit status.
func TestRestore_InTheBackground_OutlivesItsCommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	program, err := shipped.Program()
	require.NoError(t, err)
	cache := t.TempDir()
	env := []string{"XDG_CACHE_HOME=" + cache, "HOME=" + cache}
	typed := "" // on standard input
	tisnap := func(args ...string) (stdout, stderr string, code int) {
		cmd := exec.CommandContext(within(t), program, append(args, "--storage", round.Storage)...)
		cmd.Env = slices.Concat(os.Environ(), p.Bed().Env(), env)
		cmd.Stdin = strings.NewReader(typed)
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); err != nil {
			require.ErrorAs(t, err, &exit)
			stderr = string(exit.Stderr)
		}
		return string(out), stderr, cmd.ProcessState.ExitCode()
	}
	to := p.next()
	plan, stderr, code := tisnap("restore", round.BackupID, "--to", to.String(), "--wait=false", "--dry-run")
	require.Zero(t, code, stderr)
	require.Contains(t, plan, "nothing was changed")
	require.NoDirExists(t, filepath.Join(cache, "tisnap", "runs"), "nothing runs in the background")

	own := ownManifest(t, p, to, func(input string, args ...string) (stdout, stderr string, code int) {
		typed = input
		defer func() { typed = "" }()
		return tisnap(args...)
	})
	out, stderr, code := tisnap(append([]string{"restore", round.BackupID, "--to", to.String(), "--wait=false", "--timeout", "1m", "-o", "json"}, own...)...)
	require.Zero(t, code, stderr)
	var began struct{ Run, Log string }
	require.NoError(t, json.Unmarshal([]byte(out), &began), out)
	log, stderr, code := tisnap("logs", began.Run, "-f")
	printed, err := os.ReadFile(began.Log)
	require.NoError(t, err)
	require.Zero(t, code, "%s%s%s", log, stderr, printed)
	require.Contains(t, log, "run "+began.Run)
	require.Contains(t, log, "the run has ended")
	status, _, code := tisnap("status", began.Run, "-o", "jsonpath={.state} {.operation}")
	require.Zero(t, code)
	require.Equal(t, "done restore", status)
	p.verify(t, to)
	made := p.Bed().Kube.Get("tidbclusters", to.Namespace, to.Name)
	require.Equal(t, "storage", made.GetLabels()["team"], "of the manifest")
	require.Equal(t, "yes", made.GetAnnotations()["tried"], "of the patch")

	env = append(env, "TISNAP_WAIT=false") // the process in the background has it too, and waits
	out, stderr, code = tisnap("restore", round.BackupID, "--to", to.String(), "--run-id", "second")
	require.Equal(t, int(exitConflict), code, stderr)
	require.Empty(t, out)
	require.Contains(t, stderr, "the cluster exists: run "+began.Run+" has restored backup "+round.BackupID+" to it")
}
