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
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// podsPlace is a testbed with a backup, and nodes on which the pods of Jobs run the program.
type podsPlace struct {
	*place
	create     []string
	right, key string        // files: the repository's key, and that of the pods' Secret
	ran        atomic.Int64  // pods
	evicted    chan struct{} // of the first pod
}

func newPodsPlace(t *testing.T) *podsPlace {
	t.Helper()
	p := &podsPlace{place: newPlace(t, testbed.Config{Nodes: 6, Scale: 20}), evicted: make(chan struct{})}
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	p.right = filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(p.right, []byte(identity.String()), 0o600))
	p.key = p.right
	url := "s3://" + testbed.Bucket + "/archive"
	for _, args := range [][]string{
		{"backup", prod.String(), "--name", "pods", "--storage", whole},
		{"archive", "init", "--repo", url, "--recipient", identity.Recipient().String()},
	} {
		e := p.run(t, args...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	p.create = []string{
		"archive", "create", "pods", "--storage", whole, "--repo", url, "--repo-identity", p.right, "-n", "tidb",
		"--on-kubernetes", "--workers", "2", "--image", "tisnap:v1",
	}
	return p
}

// pods runs those of Jobs until the returned function is called.
func (p *podsPlace) pods(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		p.bed.Kube.RunJobs(ctx, func(ctx context.Context, pod *corev1.Pod) int32 { return p.pod(ctx, t, pod) })
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// pod is what a pod does. The first of all is evicted.
func (p *podsPlace) pod(ctx context.Context, t *testing.T, pod *corev1.Pod) int32 {
	t.Helper()
	if p.ran.Add(1) == 1 {
		p.bed.Kube.Evict(pod.Namespace, pod.Name)
		close(p.evicted)
		return 0
	}
	spec := pod.Spec.Containers[0]
	index := pod.Labels[batchv1.JobCompletionIndexAnnotation] // which the pod has as $JOB_COMPLETION_INDEX
	args := append(slices.Clone(spec.Args), "--name", pod.Spec.Hostname, "--index", index)
	for i, arg := range args {
		if strings.HasPrefix(arg, "--repo-identity=") {
			assert.Equal(t, "--repo-identity=/etc/tisnap/archive/identity", arg)
			args[i] = "--repo-identity=" + p.key
		}
	}
	var stdout, stderr bytes.Buffer
	code := tisnap(ctx, p.bed, &stdout, &stderr, slices.Concat(args, p.flags)...)
	return int32(code)
}

// left are the Jobs and pods of workers.
func (p *podsPlace) left() (names []string) {
	for _, res := range []string{"jobs", "pods"} {
		for _, o := range p.bed.Kube.List(res, "tidb") {
			if o.GetLabels()["app.kubernetes.io/name"] == "tisnap" {
				names = append(names, res+"/"+o.GetName())
			}
		}
	}
	return names
}

// The pod that is evicted is made again, and the Job is gone with the archive's commit.
func TestArchiveCreate_OnKubernetes_PodsDoIt(t *testing.T) {
	t.Parallel()
	p := newPodsPlace(t)
	plan := p.refused(t, append(slices.Clone(p.create), "--dry-run", "--worker-node-selector", "pool=spot",
		"--worker-env", "NO_PROXY=.svc,10.0.0.0/8")...)
	require.Equal(t, cli.ExitDone, plan.code, plan.stderr)
	require.Contains(t, plan.stdout, "kind: Job")
	require.Contains(t, plan.stdout, "backoffLimitPerIndex")
	require.Regexp(t, `nodeSelector:\n +pool: spot\n`, plan.stdout)
	require.Regexp(t, `name: NO_PROXY\n +value: .svc,10.0.0.0/8\n`, plan.stdout)
	defer p.pods(t)()
	e := p.run(t, append(slices.Clone(p.create), "-o", "json")...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	<-p.evicted
	require.GreaterOrEqual(t, p.ran.Load(), int64(3))
	var doc struct {
		Committed bool
		Archive   string
		Workers   struct {
			Namespace, Job string
			Pods           int
			Left           bool
		}
	}
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
	require.True(t, doc.Committed)
	require.Equal(t, "tidb", doc.Workers.Namespace)
	require.Equal(t, 2, doc.Workers.Pods)
	require.False(t, doc.Workers.Left)
	require.Empty(t, p.left())
	verified := p.run(t, "archive", "verify", doc.Archive, "--repo", "s3://"+testbed.Bucket+"/archive", "--repo-identity", p.right)
	require.Equal(t, cli.ExitDone, verified.code, verified.stderr)
}

// A wrong key in the pods' Secret ends the Job and the command at once; the same command makes another Job, and resumes.
func TestArchiveCreate_OnKubernetes_WrongKey_FailsAndIsResumed(t *testing.T) {
	t.Parallel()
	p := newPodsPlace(t)
	stranger, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	p.key = filepath.Join(t.TempDir(), "stranger")
	require.NoError(t, os.WriteFile(p.key, []byte(stranger.String()), 0o600))
	stop := p.pods(t)
	began := time.Now()
	e := p.run(t, p.create...)
	require.Equal(t, cli.ExitCode(5), e.code, e.stderr)
	require.Less(t, time.Since(began), time.Minute)
	require.Contains(t, e.stderr, "exit code 7")
	require.Contains(t, e.stdout, "kubectl -n tidb delete job tisnap-archive-")
	require.NotEmpty(t, p.left())
	stop()
	p.key = p.right
	defer p.pods(t)()
	e = p.run(t, p.create...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Empty(t, p.left())
}

func TestArchiveCreate_OnKubernetes_CannotWork_RefusedFirst(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 3})
	base := []string{"archive", "create", "x", "--storage", whole, "--on-kubernetes"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no image":  {[]string{"--repo", "s3://b/a"}, "needs --image"},
		"no pods":   {[]string{"--repo", "s3://b/a", "--image", "i", "--workers", "0"}, "want 1 to"},
		"a secret":  {[]string{"--repo", "s3://b/a", "--image", "i", "--worker-env", "AWS_SESSION_TOKEN=x"}, "may be a secret"},
		"no bucket": {[]string{"--repo", "file:///a", "--image", "i"}, "pods do not have the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := p.refused(t, slices.Concat(base, c.args)...)
			require.Equal(t, cli.ExitCode(2), e.code, e.stderr)
			require.Contains(t, e.stderr, c.want)
		})
	}
}
