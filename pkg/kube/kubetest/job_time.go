package kubetest

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The real controller asks again for a pod that was refused after 1 s, and each time after twice as long, a minute at
// most.
const (
	leastJobBackoff = 20 * time.Millisecond
	mostJobBackoff  = time.Second
)

// refusals are those of a Job's pods since the last one that was made.
type refusals struct {
	next  time.Time
	pause time.Duration
}

// refusedNow reports whether a pod of the Job was refused so lately that the next is not asked for yet.
func (k *jobKubelet) refusedNow(job *batchv1.Job) bool {
	r, is := k.refusals[job.UID]
	return is && time.Now().Before(r.next)
}

// refuse warns about a pod that could not be made: the first time by an event, which later ones count.
func (k *jobKubelet) refuse(job *batchv1.Job, why error) {
	r := k.refusals[job.UID]
	r.pause = min(max(2*r.pause, leastJobBackoff), mostJobBackoff)
	r.next = time.Now().Add(r.pause)
	k.refusals[job.UID] = r
	about := object{"apiVersion": "batch/v1", "kind": "Job", "metadata": object{
		"namespace": job.Namespace, "name": job.Name, "uid": string(job.UID),
	}}
	e := warning(about, "FailedCreate", "Error creating: "+why.Error(), k.server.cfg.Clock.Now())
	e.Name = job.Name + "." + string(job.UID)
	of, _ := resourceByKind("Event")
	if _, err := k.server.store.create(of, untyped(e), false); err == nil {
		return
	}
	modify[corev1.Event](k.server.store, events, e.Namespace, e.Name, func(was *corev1.Event) {
		was.Count++
		was.LastTimestamp, was.Message = e.LastTimestamp, e.Message
	})
}

// expire deletes a Job that ended longer ago than it is to be kept.
func (k *jobKubelet) expire(job *batchv1.Job) {
	if job.Spec.TTLSecondsAfterFinished == nil || job.DeletionTimestamp != nil {
		return
	}
	for _, of := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		c := jobCondition(job, of)
		if c == nil || c.LastTransitionTime.IsZero() { // the real one needs it, too
			continue
		}
		kept := time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second
		if k.server.cfg.Clock.Now().Before(c.LastTransitionTime.Add(kept)) {
			return
		}
		r, _ := resourceByKind("Job")
		_, _ = k.server.store.remove(r, job.Namespace, job.Name, metav1.DeleteOptions{ // or it is gone already
			Preconditions: &metav1.Preconditions{UID: &job.UID}, PropagationPolicy: new(metav1.DeletePropagationForeground),
		})
		return
	}
}
