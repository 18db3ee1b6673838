package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/failure"
)

func isReady(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// podReason returns why a pod is not running, from the most informative source, on one line.
func podReason(p *corev1.Pod, warning string) string { return failure.Line(firstReason(p, warning)) }

func firstReason(p *corev1.Pod, warning string) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	if reason := containerReason(p); reason != "" {
		return reason
	}
	if reason := conditionReason(p, warning); reason != "" {
		return reason
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return joined(s.State.Waiting.Reason, s.State.Waiting.Message)
		}
	}
	return "phase " + string(p.Status.Phase)
}

// containerReason returns what keeps a container from running, other than being created.
func containerReason(p *corev1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Terminated != nil:
			t := s.State.Terminated
			return fmt.Sprintf("%s: container %s ended with code %d %s", t.Reason, s.Name, t.ExitCode, t.Message)
		case s.State.Waiting != nil && s.State.Waiting.Reason != "ContainerCreating" &&
			s.State.Waiting.Reason != "PodInitializing":
			return joined(s.State.Waiting.Reason, s.State.Waiting.Message)
		}
	}
	return ""
}

// conditionReason returns which of the pod's conditions is not met.
func conditionReason(p *corev1.Pod, warning string) string {
	scheduled := corev1.PodCondition{}
	ready := corev1.PodCondition{}
	for _, c := range p.Status.Conditions {
		switch c.Type {
		case corev1.PodScheduled:
			scheduled = c
		case corev1.PodReady:
			ready = c
		}
	}
	switch {
	case scheduled.Status == corev1.ConditionFalse:
		return joined(scheduled.Reason, scheduled.Message)
	case warning != "" && p.Status.Phase != corev1.PodRunning:
		return warning
	case ready.Message != "":
		return joined(ready.Reason, ready.Message)
	case ready.Reason != "":
		return ready.Reason
	case p.Status.Reason != "":
		return joined(p.Status.Reason, p.Status.Message)
	}
	return ""
}

func joined(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
