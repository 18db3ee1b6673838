package kube_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

const nightlyStorage = "s3://" + testbed.Bucket + "/nightly"

// kubelet runs the containers of the nightly pods as local processes, against a testbed.
type kubelet struct {
	system
	bed *testbed.Testbed
}

// container is one that runs.
type container struct {
	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan error
}

// starts runs a container of the pod with its arguments and the settings of manifests/, its storage that of the testbed.
func (k kubelet) starts(t *testing.T, of corev1.Container, settings map[string]string) *container {
	t.Helper()
	program, err := shipped.Program()
	require.NoError(t, err)
	var args []string
	for _, arg := range of.Args {
		args = append(args, strings.ReplaceAll(arg, "$(CLUSTER)", settings["CLUSTER"]))
	}
	c := &container{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), program, args...), ended: make(chan error, 1)}
	c.cmd.Env = os.Environ()
	for name, value := range settings {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	c.cmd.Env = append(append(c.cmd.Env, k.bed.Env()...), "TISNAP_STORAGE="+nightlyStorage)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	go func() { c.ended <- c.cmd.Wait() }()
	return c
}

// code waits for the container's exit code.
func (c *container) code(t *testing.T) int32 {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		require.Fail(t, "it does not end", c.log.String())
	}
	return int32(c.cmd.ProcessState.ExitCode())
}

// night is a nightly backup whose process holds its cluster, and stays so.
type night struct {
	kubelet
	faults   *fault.Plan
	held     *testbed.Cluster
	settings map[string]string
	node     string
	pod      *corev1.Pod
	backup   *container
}

// beginNight begins the backup of a night, and returns when it holds the cluster.
func beginNight(t *testing.T) night {
	t.Helper()
	s := openNightly(t)
	n := night{faults: &fault.Plan{}, node: s.node(t, s.zone("a")), settings: of[corev1.ConfigMap](t, "kustomize/nightly", "ConfigMap").Data}
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 20, Faults: n.faults, Rules: ebstest.QuickRules()})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	n.kubelet = kubelet{system: s, bed: bed}
	name, err := cluster.ParseName(n.settings["CLUSTER"], "")
	require.NoError(t, err)
	n.held, err = bed.CreateCluster(t.Context(), name, 3)
	require.NoError(t, err)
	require.NoError(t, n.faults.Add(fault.Rule{Point: "ec2.CreateSnapshots", Nth: 2, Position: fault.Stall, Times: -1}))
	s.nightlyOn(t, "nightly", time.Now().Add(-3*time.Hour), map[string]string{"tisnap.io/test": s.namespace})
	n.pod = s.placed(t)
	n.backup = n.starts(t, n.pod.Spec.InitContainers[0], n.settings)
	eventually(t, "the cluster is held", func() bool { return len(n.faults.Unreached()) == 0 && len(n.held.Held()) > 0 })
	return n
}

// lock is the cluster's, as it is stored.
func (n night) lock(t *testing.T) *runlock.Record {
	t.Helper()
	store, err := objstore.Open(t.Context(), nightlyStorage, objstore.Config{Region: testbed.Region, Endpoint: n.bed.AWS()})
	require.NoError(t, err)
	name, err := cluster.ParseName(n.settings["CLUSTER"], "")
	require.NoError(t, err)
	record, _, err := runlock.Read(t.Context(), store, name)
	require.NoError(t, err)
	return record
}

// runsPod runs the containers of a pod one after the other, and returns the exit code of the last one that ran.
func (n night) runsPod(t *testing.T, pod *corev1.Pod) (code int32, log string) {
	t.Helper()
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		process := n.starts(t, c, n.settings)
		if code = process.code(t); code != 0 {
			return code, c.Name + ": " + process.log.String()
		}
	}
	return 0, ""
}

// A pod that is evicted while the cluster is held releases it; the pod that is made instead takes the backup of the night, and
// prunes.
func TestNightly_PodEvictedInTheHold_ReleasesAndTheNextOneSeals(t *testing.T) {
	t.Parallel()
	n := beginNight(t)
	pods, evictedAt := n.core.CoreV1().Pods(n.namespace), time.Now()
	require.NoError(t, pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: n.pod.Name, Namespace: n.namespace}}))
	evicted, err := pods.Get(t.Context(), n.pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, evicted.DeletionTimestamp)
	require.EqualValues(t, 60, *evicted.DeletionGracePeriodSeconds)
	require.NoError(t, n.backup.cmd.Process.Signal(syscall.SIGTERM))
	code := n.backup.code(t)
	require.EqualValues(t, 143, code, n.backup.log.String())
	require.Empty(t, n.held.Held())
	first := n.lock(t)
	require.True(t, first.Released, "its lock blocks no one: one that is not released is watched for a minute first")
	n.ends(t, n.pod, code)
	now := int64(0)
	require.NoError(t, pods.Delete(t.Context(), n.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))

	n.faults.Clear()
	second := n.placed(t, n.pod.Name)
	code, log := n.runsPod(t, second)
	require.Zero(t, code, log)
	next := n.lock(t)
	require.Equal(t, first.Epoch+1, next.Epoch, "the first try of the next one took the lock")
	after := next.AcquiredAt.Sub(evictedAt).Round(time.Millisecond)
	t.Logf("the next one worked %v after the eviction", after)
	require.Less(t, after, time.Minute)
	n.ends(t, second, 0)
	n.eventuallyJob(t, "nightly", batchv1.JobComplete, "")
}

// A node that is lost in the hold takes the process along, which releases nothing. The hold runs out, and one of the next
// pods of the same night takes the backup: until the dead one's lock has run out, they end as locked and are made again.
func TestNightly_NodeLostInTheHold_TheSameNightSeals(t *testing.T) {
	t.Parallel()
	n := beginNight(t)
	const locked = 6
	require.NoError(t, n.backup.cmd.Process.Kill())
	n.backup.code(t)
	n.faults.Clear()
	n.system.node(t, n.zone("b"))
	require.NoError(t, n.core.CoreV1().Nodes().Delete(t.Context(), n.node, metav1.DeleteOptions{}))
	eventually(t, "the hold has run out", func() bool { return len(n.held.Held()) == 0 })
	seen := []string{n.pod.Name}
	for {
		pod := n.placed(t, seen...)
		seen = append(seen, pod.Name)
		code, log := n.runsPod(t, pod)
		n.ends(t, pod, code)
		if code == 0 {
			break
		}
		require.EqualValues(t, locked, code, log)
	}
	n.eventuallyJob(t, "nightly", batchv1.JobComplete, "")
	require.Empty(t, n.held.Held())
}

// placed waits for a pod of the CronJob nightly that has a node.
func (s system) placed(t *testing.T, seen ...string) *corev1.Pod {
	t.Helper()
	pod := s.started(t, "nightly", seen...)
	eventually(t, "it has a node", func() bool {
		now, err := s.core.CoreV1().Pods(s.namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return now.Spec.NodeName != ""
	})
	return pod
}
