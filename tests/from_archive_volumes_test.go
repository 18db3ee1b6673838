package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
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
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
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

	// TiKV would run on no node at first, and then on one.
	patch := filepath.Join(t.TempDir(), "patch.yaml")
	require.NoError(t, os.WriteFile(patch, []byte(`spec: {tikv: {nodeSelector: {disk: ssd}}}`), 0o600))
	e = restore("dry", "--dry-run", "--patch", patch)
	require.Equal(t, cli.ExitCode(5), e.code, e.stderr)
	require.Contains(t, e.stderr, "no node takes its TiKV pod (nodeSelector disk=ssd, no tolerations)")
	node := p.bed.Objects.Get("nodes", "", "node-1")
	require.NoError(t, unstructured.SetNestedField(node.Object, "ssd", "metadata", "labels", "disk"))
	require.NoError(t, p.bed.Objects.Put(node))
	e = restore("dry", "--dry-run", "--patch", patch)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &plan))
	for _, v := range plan.Volumes {
		require.Equal(t, testbed.Region+"b", v.Zone)
	}

	e = p.killedAndResumed(t, faults, storage, append([]string{"restore", a.ids[1], "--to", "tidb/copy"}, a.flags...))
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

// killedAndResumed restores an archive by --archive-via auto where there is no AWS, so that pods fill the volumes, kills
// that once those of one store are filled, and repeats the command where snapshots would be made. It refuses a StorageClass
// that was replaced meanwhile, and continues with one that is the same again.
func (p *place) killedAndResumed(t *testing.T, faults *fault.Plan, storage string, args []string) (e ending) {
	t.Helper()
	path, err := shipped.Program()
	require.NoError(t, err)
	var stdout, stderr bytes.Buffer
	program := func(env ...string) *exec.Cmd {
		stdout.Reset()
		stderr.Reset()
		cmd := exec.CommandContext(t.Context(), path, append(args, "--from-archive", "--storage", storage, "--storage-class",
			testbed.OtherClass, "--image", "tisnap:test", "--workers", "1", "--timeout", "2m", "-o", "json", "--progress", "plain",
			"--endpoint-url", p.bed.AWS(), "--kubeconfig", p.bed.Kubeconfig())...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &stdout, &stderr
		return cmd
	}
	killed := program()
	require.NoError(t, killed.Start())
	require.NoError(t, faults.Add(fault.Rule{
		Point: "kube.update.persistentvolumeclaims", Position: fault.Slow, Do: func() { _ = killed.Process.Kill() },
	}))
	require.Error(t, killed.Wait())
	require.Empty(t, faults.Unreached(), stderr.String())
	require.Contains(t, stderr.String(), "there is no AWS here")
	store, err := objstore.Open(t.Context(), storage, objstore.Config{})
	require.NoError(t, err)
	name := cluster.Name{Namespace: "tidb", Name: "copy"}
	lock, _, err := runlock.Read(t.Context(), store, name)
	require.NoError(t, err)
	require.NoError(t, runlock.Break(t.Context(), store, name, lock.Epoch), "as time does")

	class := p.bed.Objects.Get("storageclasses", "", testbed.OtherClass)
	replace := func(parameters map[string]any) {
		require.NoError(t, p.bed.Objects.Remove(class))
		again := class.DeepCopy()
		again.SetUID("")
		if parameters != nil {
			again.Object["parameters"] = parameters
		}
		require.NoError(t, p.bed.Objects.Put(again))
	}
	replace(map[string]any{"encrypted": "false"})
	_ = program("AWS_REGION=" + testbed.Region).Run() // its output has the error
	require.Contains(t, stderr.String(), "someone has replaced it since run "+string(lock.Owner.Run)+" began with it")
	replace(nil)
	err = program("AWS_REGION=" + testbed.Region).Run()
	require.NoError(t, err, stderr.String())
	require.Contains(t, stderr.String(), "run "+string(lock.Owner.Run)+", which is not finished, began so")
	return ending{stdout: stdout.String(), stderr: stderr.String()}
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
