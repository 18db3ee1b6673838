package kubetest

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Crashed begins the reason of a Runtime whose process has exited on its own. The kubelet starts it again, later each time.
const Crashed = "CrashLoopBackOff: "

// maxBackoff is how many times as long as the first one the longest pause before a restart is: 10 s and 5 min in a real one.
const maxBackoff = 30

// crashed has a process that ended started again. Why it ended is in the pod's log and nowhere else, as TiKV's is.
func (o *Operator) crashed(p *podState, obj *corev1.Pod, why string) {
	p.stage, p.ready = waiting, false
	p.restarts++
	backoff := o.cfg.Retry * time.Duration(min(1<<min(p.restarts-1, 10), maxBackoff))
	p.notBefore = o.now().Add(backoff)
	if o.objects.log != nil {
		now := o.now().UTC().Format("2006/01/02 15:04:05.000 -07:00")
		o.objects.log(obj.Namespace, obj.Name, "", fmt.Sprintf("[%s] [INFO] [lib.rs:88] [\"Welcome to TiKV\"]\n[%s] [FATAL] [lib.rs:509] [%q] [backtrace=\"   0: tikv_util::set_panic_hook\"]\n",
			now, now, strings.TrimPrefix(why, Crashed)))
	}
	modify(o.store, pods, obj.Namespace, obj.Name, func(pod *corev1.Pod) {
		container := pod.Spec.Containers[0]
		pod.Status.Phase = corev1.PodRunning
		o.setCondition(pod, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: ["+container.Name+"]")
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: container.Name, Image: container.Image, RestartCount: int32(p.restarts - 1), //nolint:gosec // a small count
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", backoff, container.Name, pod.Name),
			}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Error", ExitCode: 1, FinishedAt: metav1.NewTime(o.now().UTC()),
			}},
		}}
	})
}
