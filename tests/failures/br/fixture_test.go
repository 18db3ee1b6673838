package br_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// scale is how many times as fast EC2 is.
const scale = 20

// patience is how long anything is waited for: the machine may do much else.
const patience = 4 * time.Minute

const storage = "s3://" + testbed.Bucket + "/vb1-k8s-a"

// prod is the cluster that backups are taken of.
var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	if err := os.Setenv("BR_LOG_TO_TERM", "\x01"); err != nil { // as the Operator does
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(shipped.Exit))
}

// place is a testbed with one cluster of three stores, and the file that the Operator hands to br.
type place struct {
	*testbed.Testbed
	c      *testbed.Cluster
	faults *fault.Plan
	dir    string
	meta   *manifest.BRMeta

	maxPause time.Duration // of the pauses; zero is br's own
}

func newPlace(t *testing.T, change ...func(*testbed.Config)) *place {
	t.Helper()
	ctx := within(t, patience)
	p := &place{faults: &fault.Plan{}, dir: t.TempDir()}
	cfg := testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: scale, Faults: p.faults, Rules: ebstest.QuickRules()}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	p.Testbed, err = testbed.Start(context.WithoutCancel(ctx), cfg)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	p.c, err = p.CreateCluster(ctx, prod, 3)
	require.NoError(t, err)
	p.meta = p.clusterMeta(ctx, t)
	p.writeMeta(t)
	return p
}

// clusterMeta is what the Operator's backup-manager writes about the cluster.
func (p *place) clusterMeta(ctx context.Context, t *testing.T) *manifest.BRMeta {
	t.Helper()
	k, err := kube.Open(kube.Config{Kubeconfig: p.Kubeconfig()})
	require.NoError(t, err)
	defer k.Close()
	tc, err := k.Cluster(ctx, prod)
	require.NoError(t, err)
	pods, err := k.TiKVPods(ctx, prod)
	require.NoError(t, err)
	d := new(manifest.BRMeta)
	d.TiKV.Replicas, d.PD.Replicas, d.TiDB.Replicas = len(pods), 1, 1
	d.Kubernetes.TidbCluster = tc.Object
	for id, name := range tc.Stores {
		for _, pod := range pods {
			if pod.Name != name {
				continue
			}
			store := manifest.BRStore{ID: uint64(id)}
			for _, m := range pod.Mounts {
				store.Volumes = append(store.Volumes, manifest.BRVolume{ID: string(m.Volume), Role: string(m.Role), MountPath: m.MountPath})
				d.Kubernetes.PVCs = append(d.Kubernetes.PVCs, m.Claim)
				d.Kubernetes.PVs = append(d.Kubernetes.PVs, m.Object)
			}
			d.TiKV.Stores = append(d.TiKV.Stores, store)
		}
	}
	return d
}

func (p *place) volumeFile() string { return filepath.Join(p.dir, "csb_backup.json") }

func (p *place) progressFile() string { return filepath.Join(p.dir, "progress.txt") }

func (p *place) writeMeta(t *testing.T) {
	t.Helper()
	doc, err := p.meta.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.volumeFile(), doc, 0o600))
}

// job is a run of br, with what it has written so far.
type job struct {
	mu     sync.Mutex
	stdout strings.Builder
	stderr strings.Builder
	wake   chan struct{} // gets a value at each write, if it has room

	code brcompat.ExitCode
	stop context.CancelFunc // as SIGTERM does
	done chan struct{}
}

type writer struct {
	j  *job
	to *strings.Builder
}

func (w writer) Write(b []byte) (int, error) {
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	select {
	case w.j.wake <- struct{}{}:
	default:
	}
	return w.to.Write(b)
}

func (j *job) out() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stdout.String()
}

// condition is what the Operator's manager would put into the CR: the lines of stdout with [ERROR], and stderr.
func (j *job) condition() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var text strings.Builder
	for line := range strings.Lines(j.stdout.String()) {
		if strings.Contains(line, "[ERROR]") {
			text.WriteString(line)
		}
	}
	return text.String() + j.stderr.String()
}

// start runs a command line of br.
func (p *place) start(t *testing.T, args ...string) *job {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	j := &job{wake: make(chan struct{}, 1), stop: cancel, done: make(chan struct{})}
	streams := brcompat.Streams{Out: writer{j, &j.stdout}, Err: writer{j, &j.stderr}, EC2: p.AWS(), MaxPause: p.maxPause}
	go func() {
		defer close(j.done)
		j.code = brcompat.Run(ctx, args, streams, brcompat.Version{Version: "test"})
	}()
	t.Cleanup(func() { cancel(); <-j.done })
	return j
}

// pause runs what the Operator's initialize runs.
func (p *place) pause(t *testing.T, args ...string) *job {
	t.Helper()
	return p.start(t, append([]string{"operator", "pause-gc-and-schedulers", "--pd=" + p.pd()}, args...)...)
}

// backup runs what the Operator's execute runs, with its flags and in its order.
func (p *place) backup(t *testing.T, args ...string) *job {
	t.Helper()
	return p.start(t, append([]string{
		"backup", "full", "--type=aws-ebs", "--volume-file=" + p.volumeFile(), "--pd=" + p.pd(), "--send-credentials-to-tikv=false",
		"--storage=" + storage, "--s3.region=" + testbed.Region, "--s3.provider=aws", "--s3.endpoint=" + p.AWS(), "--progress-file=" + p.progressFile(),
	}, args...)...)
}

const underPause = "--operator-paused-gc-and-scheduler=true"

func (p *place) pd() string {
	urls := make([]string, 0, 1)
	for _, u := range p.c.PD.URLs() {
		urls = append(urls, strings.TrimPrefix(u, "http://"))
	}
	return strings.Join(urls, ",")
}

// awaitLine waits until the job has written a line, and fails if it ends before.
func (j *job) awaitLine(t *testing.T, line string) {
	t.Helper()
	ctx := within(t, patience)
	for !strings.Contains(j.out(), line) {
		select {
		case <-j.wake:
		case <-j.done:
			require.Contains(t, j.out(), line, "it ended with %d: %s", j.code, j.condition())
			return
		case <-ctx.Done():
			require.Contains(t, j.out(), line)
		}
	}
}

// ends waits until the job has ended.
func (j *job) ends(t *testing.T) brcompat.ExitCode {
	t.Helper()
	select {
	case <-j.done:
	case <-within(t, patience).Done():
		require.FailNow(t, "it does not end", j.out())
	}
	return j.code
}

// resolvedTS is what the Operator's backup-manager reads from the line of success.
func (j *job) resolvedTS(t *testing.T) uint64 {
	t.Helper()
	_, after, ok := strings.Cut(j.out(), "EBS backup success")
	require.True(t, ok, j.out())
	after, _, _ = strings.Cut(after, "\n")
	found := regexp.MustCompile(`resolved_ts=(\d+)`).FindStringSubmatch(after)
	require.Len(t, found, 2, after)
	ts, err := strconv.ParseUint(found[1], 10, 64)
	require.NoError(t, err)
	return ts
}

func (p *place) store(t *testing.T) objstore.Store {
	t.Helper()
	s, err := objstore.Open(t.Context(), storage, objstore.Config{Region: testbed.Region, Endpoint: p.AWS()})
	require.NoError(t, err)
	return s
}

// backupMeta reads what the Operator finds at the root of the prefix; nil if there is none.
func (p *place) backupMeta(t *testing.T) *manifest.BRMeta {
	t.Helper()
	body, _, err := p.store(t).Get(t.Context(), manifest.BRBackupMeta)
	if failure.Is(err, failure.NotFound) {
		return nil
	}
	require.NoError(t, err)
	d, err := manifest.ParseBR(body)
	require.NoError(t, err)
	return d
}

// requireNothingLeft checks what a backup that failed leaves: nothing.
func (p *place) requireNothingLeft(t *testing.T) {
	t.Helper()
	require.False(t, p.backupMeta(t) != nil, "a backupmeta of a backup that failed")
	require.Empty(t, p.EC2.Snapshots())
	_, _, err := p.store(t).Get(t.Context(), manifest.BRLock)
	require.True(t, failure.Is(err, failure.NotFound), "backup.lock: %v", err)
}

func (p *place) progress(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile(p.progressFile())
	require.NoError(t, err)
	n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(string(text)), "%"), 64)
	require.NoError(t, err)
	return n
}

func (p *place) fault(t *testing.T, r fault.Rule) {
	t.Helper()
	require.NoError(t, p.faults.Add(r))
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
