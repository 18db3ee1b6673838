package kube

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/typed"
)

// CrashLoop is a TiKV pod whose process keeps crashing.
type CrashLoop struct {
	Pod      string
	Ordinal  int
	Restarts int
	// LastWords is TiKV's last log message on why it exited, on one line; "" if its log is unreadable.
	LastWords string
}

const (
	// logTail and logBytes bound how much of a log is read: a FATAL line of TiKV has a backtrace of some kilobytes.
	logTail  = int64(100)
	logBytes = int64(256 << 10)
)

func (c generation1) crashLoops(ctx context.Context, name cluster.Name, restarts int) ([]CrashLoop, error) {
	instance, err := c.instance(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.crashLoopsOf(ctx, name, restarts, operator1.ComponentSelector(instance, operator1.TiKV))
}

// crashLoopsOf lists the TiKV pods that are not running and have restarted at least this often. The kubelet waits 10 s
// before the first restart and doubles that each time: the fourth comes after two and a half minutes.
func (c *Client) crashLoopsOf(
	ctx context.Context, name cluster.Name, restarts int, pods metav1.ListOptions,
) ([]CrashLoop, error) {
	list, err := c.core.Pods(name.Namespace).List(ctx, pods)
	if err != nil {
		return nil, kubeerr.Wrap(err, "list tikv pods", name.String())
	}
	var found []CrashLoop
	for i := range list.Items {
		pod := &list.Items[i]
		status, ended := endedTiKV(pod)
		if !ended || int(status.RestartCount) < restarts {
			continue
		}
		found = append(found, CrashLoop{
			Pod: pod.Name, Ordinal: ordinalOf(pod.Name), Restarts: int(status.RestartCount),
			LastWords: c.lastWords(ctx, pod),
		})
	}
	return found, nil
}

// endedTiKV returns the status of the pod's TiKV container, and whether it has exited and waits for its next start.
func endedTiKV(pod *corev1.Pod) (corev1.ContainerStatus, bool) {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == operator1.TiKV {
			waiting := s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff"
			return s, pod.DeletionTimestamp == nil && (waiting || s.State.Terminated != nil)
		}
	}
	return corev1.ContainerStatus{}, false
}

// lastWords reads why TiKV exited from the log of its last process. Best effort.
func (c *Client) lastWords(ctx context.Context, pod *corev1.Pod) string {
	ctx = typed.Optional(ctx)
	for _, previous := range []bool{true, false} {
		tail, limit := logTail, logBytes
		text, err := c.core.PodLog(pod.Namespace, pod.Name, &corev1.PodLogOptions{
			Container: operator1.TiKV, Previous: previous, TailLines: &tail, LimitBytes: &limit,
		}).DoRaw(ctx)
		if words := wordsOf(string(text)); err == nil && words != "" {
			return words
		}
	}
	return ""
}

// wordsOf returns the line of a TiKV log that best explains its exit: the last FATAL, else the last ERROR, else the
// last line, without time and backtrace.
func wordsOf(log string) string {
	var last [3]string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		rank := 2
		for i, level := range []string{"[FATAL]", "[ERROR]"} {
			if _, after, found := strings.Cut(line, level); found {
				rank, line = i, level+after
				break
			}
		}
		line, _, _ = strings.Cut(line, " [backtrace=")
		if line != "" {
			last[rank] = line
		}
	}
	for _, line := range last {
		if line != "" {
			return failure.Line(line)
		}
	}
	return ""
}
