package podreason

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/typed"
)

// Ready reports whether a pod is ready and not being deleted.
func Ready(p *corev1.Pod) bool {
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

// Of returns why a pod is not running, from the most informative source, on one line.
func Of(p *corev1.Pod, warning string) string { return failure.Line(firstReason(p, warning)) }

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

// maxReasons bounds All: a thousand pods would have the same reason.
const maxReasons = 10

// All lists the pods that are not ready, the first of them with their reasons.
func All(pods []corev1.Pod, warned Warnings) []string {
	var reasons []string
	waiting := 0
	for i := range pods {
		if Ready(&pods[i]) {
			continue
		}
		if waiting++; waiting <= maxReasons {
			reasons = append(reasons, "pod "+pods[i].Name+": "+Of(&pods[i], warned[string(pods[i].UID)]))
		}
	}
	if waiting > maxReasons {
		reasons = append(reasons, fmt.Sprintf("and %d more pods", waiting-maxReasons))
	}
	return reasons
}

// Warnings are the newest warnings in a namespace: of pods by uid, since one about an earlier pod of the same name does
// not apply, and of other objects by "Kind/name".
type Warnings map[string]string

// Warned reads them. It ignores errors: warnings are only explanations.
func Warned(ctx context.Context, core *typed.Client, namespace string) Warnings {
	found, newest := Warnings{}, map[string]metav1.Time{}
	for _, e := range warnings(ctx, core, namespace) {
		of := string(e.InvolvedObject.UID)
		if e.InvolvedObject.Kind != "Pod" {
			of = e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
		}
		at := lastOf(&e)
		if was, seen := newest[of]; seen && at.Before(&was) {
			continue
		}
		newest[of] = at
		found[of] = e.Reason + ": " + e.Message
	}
	return found
}

// Refusal is a warning that a pod could not be made. Version is another one for each attempt; "" is of none.
type Refusal struct{ Text, Version string }

// Refused is the newest refusal of a pod of the object with this UID.
func Refused(ctx context.Context, core *typed.Client, namespace string, uid types.UID) (r Refusal) {
	var newest metav1.Time
	for _, e := range warnings(ctx, core, namespace) {
		at := lastOf(&e)
		if e.InvolvedObject.UID != uid || e.Reason != "FailedCreate" || at.Before(&newest) {
			continue
		}
		newest, r = at, Refusal{failure.Line(e.Reason + ": " + e.Message), string(e.UID) + "." + e.ResourceVersion}
	}
	return r
}

func warnings(ctx context.Context, core *typed.Client, namespace string) []corev1.Event {
	list, err := core.Events(namespace).
		List(typed.Optional(ctx), metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err != nil {
		return nil
	}
	return list.Items
}

// lastOf is when an event happened last.
func lastOf(e *corev1.Event) metav1.Time {
	if e.LastTimestamp.IsZero() {
		return metav1.NewTime(e.EventTime.Time)
	}
	return e.LastTimestamp
}
