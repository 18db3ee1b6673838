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
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

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
	c.cmd.Env = append(append(c.cmd.Env, k.bed.Env()...), "TISNAP_STORAGE=s3://"+testbed.Bucket+"/nightly")
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
	return int32(c.cmd.ProcessState.ExitCode()) //nolint:gosec // at most 255
}

// A pod that is evicted while the cluster is held lets go of it; the pod that is made instead takes the backup of the night, and
// prunes.
func TestNightly_PodEvictedInTheHold_LetsGoAndTheNextOneSeals(t *testing.T) {
	t.Parallel()
	s := openNightly(t)
	s.node(t, s.zone("a"))
	faults := &fault.Plan{}
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 20, Faults: faults, Rules: ebstest.QuickRules()})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	k := kubelet{system: s, bed: bed}
	settings := of[corev1.ConfigMap](t, "kustomize/nightly", "ConfigMap").Data
	name, err := cluster.ParseName(settings["CLUSTER"], "")
	require.NoError(t, err)
	held, err := bed.CreateCluster(t.Context(), name, 3)
	require.NoError(t, err)
	require.NoError(t, faults.Add(fault.Rule{Point: "ec2.CreateSnapshots", Nth: 2, Position: fault.Stall, Times: -1}))

	s.nightlyOn(t, "nightly", time.Now().Add(-3*time.Hour), map[string]string{"tisnap.io/test": s.namespace})
	first := s.placed(t)
	backup := k.starts(t, first.Spec.InitContainers[0], settings)
	eventually(t, "the cluster is held", func() bool { return len(faults.Unreached()) == 0 && len(held.Held()) > 0 })
	pods := s.core.CoreV1().Pods(s.namespace)
	require.NoError(t, pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: first.Name, Namespace: s.namespace}}))
	evicted, err := pods.Get(t.Context(), first.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, evicted.DeletionTimestamp)
	require.EqualValues(t, 60, *evicted.DeletionGracePeriodSeconds)
	require.NoError(t, backup.cmd.Process.Signal(syscall.SIGTERM))
	code := backup.code(t)
	require.EqualValues(t, 143, code, backup.log.String())
	require.Empty(t, held.Held())
	s.ends(t, first, code)
	now := int64(0)
	require.NoError(t, pods.Delete(t.Context(), first.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))

	faults.Clear()
	second := s.placed(t, first.Name)
	for _, c := range append(second.Spec.InitContainers, second.Spec.Containers...) {
		process := k.starts(t, c, settings)
		require.Zero(t, process.code(t), "%s: %s", c.Name, &process.log)
	}
	s.ends(t, second, 0)
	s.eventuallyJob(t, "nightly", batchv1.JobComplete, "")
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
