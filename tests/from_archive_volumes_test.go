package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
)

// fillsBy has the pods of Jobs run the program, with the key of an archive's repository in the Secret that they expect.
func (p *place) fillsBy(t *testing.T, flags []string) {
	t.Helper()
	key, err := os.ReadFile(flags[slices.Index(flags, "--repo-identity")+1])
	require.NoError(t, err)
	secret, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "tidb", Name: "tisnap-archive-key"}, Data: map[string][]byte{"identity": key},
	})
	require.NoError(t, err)
	require.NoError(t, p.bed.Objects.Put(&unstructured.Unstructured{Object: secret}))
	ctx, cancel := context.WithCancel(t.Context())
	var pods sync.WaitGroup
	t.Cleanup(func() { // the testbed is closed after that
		cancel()
		pods.Wait()
	})
	pods.Go(func() {
		p.bed.RunJobs(ctx, func(ctx context.Context, pod *corev1.Pod, args []string) int {
			var out bytes.Buffer
			code := cli.Run(ctx, args, cli.Streams{Out: &out, Err: &out}, cli.Version{Version: "test"})
			if code != cli.ExitDone {
				t.Logf("pod %s: %d: %s", pod.Name, code, out.String())
			}
			return int(code)
		})
	})
}

// TestRestore_FromArchive_StraightToVolumes restores an archive in a cloud that has no EC2 at all, onto volumes of its CSI
// driver. Nothing is left of what was filled but what TiKV mounts.
func TestRestore_FromArchive_StraightToVolumes(t *testing.T) {
	t.Parallel()
	a := archivedTwice(t)
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{Nodes: 6, Scale: 50, OtherDisks: true, Faults: faults})
	p.bed.EC2.AllowOnly()
	p.fillsBy(t, a.flags)
	storage := "file://" + filepath.Join(t.TempDir(), "storage")
	restore := func(to string, more ...string) ending {
		args := []string{
			"restore", a.ids[1], "--from-archive", "--archive-via", "volumes", "--to", "tidb/" + to, "--storage", storage, "--timeout",
			"2m", "-o", "json", "--storage-class", testbed.OtherClass, "--image", "tisnap:test",
		}
		return p.run(t, append(append(args, a.flags...), more...)...)
	}
	before := p.bed.MutatingCalls()
	e := restore("dry", "--dry-run")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Equal(t, before, p.bed.MutatingCalls(), "a dry run changes nothing")
	var plan struct {
		FromArchive struct{ Via string }
		Volumes     []struct {
			Zone   string
			Filled struct{ Driver, StorageClass, Name string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &plan))
	require.Equal(t, "volumes", plan.FromArchive.Via)
	require.Len(t, plan.Volumes, 6)
	require.Equal(t, testbed.OtherDriver+" "+testbed.OtherClass,
		plan.Volumes[0].Filled.Driver+" "+plan.Volumes[0].Filled.StorageClass)

	e = restore("copy", "--run-id", "r1")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stdout, `"fill volumes"`, "the phase is in the report")
	p.requireRows(t, "copy", a.rows[1])
	require.Empty(t, p.bed.Objects.List("jobs", "tidb"))
	for _, claim := range p.bed.Objects.List("persistentvolumeclaims", "tidb") {
		require.NotContains(t, claim.GetAnnotations(), "tisnap.io/content", "what was filled is exchanged")
	}

	// One that fails removes what it has filled, and nothing of the first.
	own := leak.Everything(p.bed)
	require.NoError(t, faults.Add(fault.Rule{Point: "kube.update.tidbclusters", Code: "Forbidden", Times: -1}))
	e = restore("failed", "--run-id", "r2")
	require.NotEqual(t, cli.ExitDone, e.code)
	require.NoError(t, leak.AwaitNoMore(t.Context(), p.bed, own, 30*time.Second), e.stderr)
	p.requireRows(t, "copy", a.rows[1])
}

// TestRestore_FromArchive_WayOfVolumes_WrongFlags holds what cannot go together.
func TestRestore_FromArchive_WayOfVolumes_WrongFlags(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	for args, want := range map[string]string{
		"--archive-via volumes":                                      "for --from-archive",
		"--storage-class x":                                          "for --from-archive",
		"--from-archive --archive-via volumes":                       "--image is missing",
		"--from-archive --archive-via snapshots --image tisnap":      "for --archive-via volumes",
		"--from-archive --archive-via volumes --image i --workers 0": "want at least 1",
	} {
		e := p.refused(t, append([]string{"restore", "latest", "--to", "tidb/copy", "--storage", whole}, strings.Fields(args)...)...)
		require.Equal(t, cli.ExitCode(2), e.code, "%s: %s", args, e.stderr)
		require.Contains(t, e.stderr, want, args)
	}
}
