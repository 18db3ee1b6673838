package tests

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// prod is the cluster that backups are taken of.
var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

// place is a testbed that the tests of one function share.
type place struct {
	bed   *testbed.Testbed
	flags []string // of all commands
	// env is what the commands' environment has besides the tests' own. With it each is a process: the environment of
	// this one belongs to all tests, which could not run at the same time.
	env []string
}

// newPlace starts a testbed that ends with the test.
func newPlace(t *testing.T, cfg testbed.Config) *place {
	t.Helper()
	cfg.Dir, cfg.Keys = t.TempDir(), []string{} // KMS has the keys that a test names to EC2, and no other
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), cfg)
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	return &place{bed: bed}
}

// ending is how a command ended.
type ending struct {
	code           cli.ExitCode
	stdout, stderr string
}

// line is the text after "error: " or "hint: " on stderr, or "".
func (e ending) line(prefix string) string {
	for line := range strings.Lines(e.stderr) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// run runs the program.
func (p *place) run(t *testing.T, args ...string) ending {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if len(p.env) > 0 {
		path, err := shipped.Program()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), path, slices.Concat(args, p.flags, against(p.bed))...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), p.env...), &stdout, &stderr
		_ = cmd.Run() // its exit code is the error
		return ending{cli.ExitCode(cmd.ProcessState.ExitCode()), stdout.String(), stderr.String()}
	}
	code := tisnap(t.Context(), p.bed, &stdout, &stderr, slices.Concat(args, p.flags)...)
	return ending{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// refused runs the program and requires that it changed nothing anywhere.
func (p *place) refused(t *testing.T, args ...string) ending {
	t.Helper()
	before := p.bed.MutatingCalls()
	e := p.run(t, args...)
	require.Equal(t, before, p.bed.MutatingCalls(), "the command changed something")
	return e
}

// storage opens a storage of the testbed as the program does.
func (p *place) storage(t *testing.T, at string) objstore.Store {
	t.Helper()
	store, err := objstore.Open(t.Context(), at, objstore.Config{Region: testbed.Region, Endpoint: p.bed.AWS()})
	require.NoError(t, err)
	return store
}

// put writes an object, over an older one.
func put(t *testing.T, store objstore.Store, key string, body []byte) {
	t.Helper()
	require.NoError(t, store.Delete(t.Context(), key))
	_, err := store.Create(t.Context(), key, body)
	require.NoError(t, err)
}

// get reads an object.
func get(t *testing.T, store objstore.Store, key string) []byte {
	t.Helper()
	body, _, err := store.Get(t.Context(), key)
	require.NoError(t, err)
	return body
}

// copyAll copies all objects of a storage to another.
func copyAll(t *testing.T, from, to objstore.Store) {
	t.Helper()
	objects, err := from.List(t.Context(), "")
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	for _, o := range objects {
		put(t, to, o.Key, get(t, from, o.Key))
	}
}

// deleteSnapshot deletes a snapshot through EC2's API, as a person's aws would.
func (p *place) deleteSnapshot(t *testing.T, id cluster.SnapshotID) {
	t.Helper()
	form := url.Values{"Action": {"DeleteSnapshot"}, "Version": {"2016-11-15"}, "SnapshotId": {string(id)}}
	p.post(t, p.bed.AWS()+"/", "application/x-www-form-urlencoded; charset=utf-8", form.Encode())
}

// post sends a body and requires that it is accepted.
func (p *place) post(t *testing.T, to, contentType, body string) {
	t.Helper()
	send(t, http.MethodPost, to, contentType, body)
}

// send sends a body, requires that it is accepted, and returns the answer.
func send(t *testing.T, method, to, contentType, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(answer))
	return string(answer)
}

// objectKeys lists the objects below a prefix.
func objectKeys(t *testing.T, store objstore.Store, prefix string) (out []string) {
	t.Helper()
	objects, err := store.List(t.Context(), prefix)
	require.NoError(t, err)
	for _, o := range objects {
		out = append(out, o.Key)
	}
	return out
}
