package kubetest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// podEvent records a warning about a pod.
func (o *Operator) podEvent(pod *corev1.Pod, reason, message string) {
	o.warn(object{"apiVersion": "v1", "kind": "Pod", "metadata": object{
		"namespace": pod.Namespace, "name": pod.Name, "uid": string(pod.UID),
	}}, reason, message)
}

// warn records a warning about an object; the same again raises the count of the first.
func (o *Operator) warn(about object, reason, message string) {
	m := meta(about)
	list, _ := o.store.list(events, m.GetNamespace())
	now := metav1.NewTime(o.now().UTC())
	for _, raw := range list {
		e := mustTyped[corev1.Event](raw)
		if e.InvolvedObject.UID != m.GetUID() || e.Reason != reason || e.Message != message {
			continue
		}
		if now.Sub(e.LastTimestamp.Time) < o.cfg.Retry {
			return
		}
		modify(o.store, events, e.Namespace, e.Name, func(e *corev1.Event) {
			e.Count++
			e.LastTimestamp = now
		})
		return
	}
	o.create(events, warning(about, reason, message, o.now()))
}

// warning is an event of a new warning.
func warning(about object, reason, message string, at time.Time) *corev1.Event {
	m, now := meta(about), metav1.NewTime(at.UTC())
	return &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: fmt.Sprintf("%s.%s", m.GetName(), string(uuid.NewUUID())[:8])},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: m.GetAPIVersion(), Kind: m.GetKind(), Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(),
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "testbed"},
	}
}
