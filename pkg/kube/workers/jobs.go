package workers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/podreason"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Job is one that a run made.
type Job struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	UID       string        `json:"uid"`
	Run       cluster.RunID `json:"run"`
}

// String is NAMESPACE/NAME.
func (j Job) String() string { return j.Namespace + "/" + j.Name }

// State is how a Job stands.
type State struct {
	// Ready pods run. Succeeded and Failed are those that ended.
	Ready, Succeeded, Failed int
	// Waiting is why pods do not run, one each, the first of them.
	Waiting []string
	// Done is set once all pods, or those of all indexes, succeeded; Broken once the Job failed.
	Done, Broken bool
	// Why it is broken: Kubernetes' reason, and what the pods' last words are.
	Why string

	refused podreason.Refusal // why there is no pod
}

// Jobs are those of a Kubernetes cluster.
type Jobs struct {
	core *typed.Client
	// Interval is the pause between two questions; 0 is 2 s.
	Interval time.Duration
	// StartWithin is how long Wait bears that no pod runs; 0 is until its context ends.
	StartWithin time.Duration
	// RefusedWithin is how long Wait bears that the API server takes no pod; 0 is 30 s.
	RefusedWithin time.Duration
	// Waits is called, unless it is nil, with why Make or Remove has to wait, before each pause.
	Waits func(why error)
}

const defaultInterval = 2 * time.Second

// New returns the Jobs that a client of the API server sees.
func New(core *typed.Client) *Jobs { return &Jobs{core: core} }

// Make makes the Job, or returns the one that the run made before. If that has failed, or is of another specification,
// as of another image, it is removed first. A Job of that name of another run, or of anyone else, is a Conflict and
// stays as it is. It waits until ctx ends.
func (j *Jobs) Make(ctx context.Context, spec Spec) (Job, error) {
	want, err := Object(spec)
	if err != nil {
		return Job{}, err
	}
	return j.make(ctx, spec, want, func(context.Context) error { return nil })
}

// MakeIf is Make of a Job whose pods may only be there while allowed returns nil. That is called right before each
// creation, and once more when the Job is there, made or found: what has changed meanwhile is seen then, or its author
// sees the Job. If allowed then refuses, the Job is removed. Only afterwards pods are made: a request that the API
// server executes late makes a Job without any.
func (j *Jobs) MakeIf(ctx context.Context, spec Spec, allowed func(context.Context) error) (Job, error) {
	want, err := Object(spec)
	if err != nil {
		return Job{}, err
	}
	want.Spec.Suspend = new(true)
	made, err := j.make(ctx, spec, want, allowed)
	if err != nil {
		return Job{}, err
	}
	err = j.until(ctx, func() (bool, error) {
		err := allowed(ctx)
		if err == nil {
			err = j.begin(ctx, made)
		}
		return !failure.Transient(err), err
	})
	if err == nil {
		return made, nil
	}
	if wait.EndOf(err) == nil {
		err = failure.Join(err, j.Remove(ctx, made))
	}
	return Job{}, failure.Annotate(wait.Reason(err), "make job", made.String())
}

// begin has the pods of a Job made. It is Limited if the Job has changed since it was read.
func (j *Jobs) begin(ctx context.Context, job Job) error {
	const op = "begin job"
	o, err := j.get(ctx, job, op)
	if err != nil || o.Spec.Suspend == nil || !*o.Spec.Suspend {
		return err
	}
	o.Spec.Suspend = new(false)
	_, err = j.core.Jobs(job.Namespace).Update(ctx, o, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return failure.New(failure.Limited, op, job.String(), "it changes")
	}
	return kubeerr.Wrap(err, op, job.String())
}

// get reads a Job. One that is gone, or in whose place there is another one by now, is NotFound.
func (j *Jobs) get(ctx context.Context, job Job, op string) (*batchv1.Job, error) {
	o, err := j.core.Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err == nil && (string(o.UID) != job.UID || o.DeletionTimestamp != nil) || apierrors.IsNotFound(err) {
		return nil, failure.New(failure.NotFound, op, job.String(), "someone deleted it").
			WithHint("run the same command again, which makes it again")
	}
	return o, kubeerr.Wrap(err, op, job.String())
}

func (j *Jobs) make(
	ctx context.Context, spec Spec, want *batchv1.Job, allowed func(context.Context) error,
) (Job, error) {
	const op = "make job"
	target := spec.Namespace + "/" + spec.Name
	api := j.core.Jobs(spec.Namespace)
	var made *batchv1.Job
	err := j.until(ctx, func() (_ bool, err error) {
		if err := allowed(ctx); err != nil {
			return !failure.Transient(err), err
		}
		made, err = api.Create(ctx, want, metav1.CreateOptions{})
		if err == nil {
			return true, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			err = kubeerr.Wrap(err, op, target)
			return !failure.Transient(err), err
		}
		made, err = api.Get(ctx, spec.Name, metav1.GetOptions{})
		if err != nil {
			err = kubeerr.Wrap(err, op, target)
			return !failure.Is(err, failure.NotFound) && !failure.Transient(err), err
		}
		if err := runmark.CheckMade(made, spec.Run, op, target); err != nil {
			return !failure.Is(err, failure.Limited), err
		}
		if _, failed := ended(made); !failed && made.Annotations[digestKey] == want.Annotations[digestKey] {
			return true, nil
		}
		err = j.Remove(ctx, read(made))
		return err != nil, err
	})
	if err != nil {
		return Job{}, failure.Annotate(wait.Reason(err), op, target)
	}
	return read(made), nil
}

func (j *Jobs) pace() wait.Pace { return wait.Every(cmp.Or(j.Interval, defaultInterval)) }

// until is wait.Until that passes on why it waits.
func (j *Jobs) until(ctx context.Context, try func() (bool, error)) error {
	return wait.Until(ctx, j.pace(), func() (bool, error) {
		done, err := try()
		if !done && err != nil && j.Waits != nil && ctx.Err() == nil {
			j.Waits(err)
		}
		return done, err
	})
}

func read(o *batchv1.Job) Job {
	return Job{
		Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), Run: cluster.RunID(o.Annotations[runmark.Key]),
	}
}

// Find returns the Job of that name that the run made; nil if there is none, or only someone else's.
func (j *Jobs) Find(ctx context.Context, run cluster.RunID, namespace, name string) (*Job, error) {
	found, err := j.core.Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !runmark.MadeBy(found, run) {
		return nil, nil
	}
	if err != nil {
		return nil, kubeerr.Wrap(err, "find job", namespace+"/"+name)
	}
	job := read(found)
	return &job, nil
}

// Made are the Jobs that the run made in a namespace.
func (j *Jobs) Made(ctx context.Context, run cluster.RunID, namespace string) (made []Job, err error) {
	list, err := j.core.Jobs(namespace).List(ctx, runmark.Selector(run))
	if err != nil {
		return nil, kubeerr.Wrap(err, "find jobs of run", string(run))
	}
	for i := range list.Items {
		if one := &list.Items[i]; runmark.MadeBy(one, run) {
			made = append(made, read(one))
		}
	}
	return made, nil
}

// ended returns whether all of a Job is done, and whether it failed. A Job that is about to fail still has pods that
// end.
func ended(o *batchv1.Job) (done, failed bool) {
	for _, c := range o.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		done = done || c.Type == batchv1.JobComplete
		failed = failed || c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget
	}
	return done, failed
}

// State asks how a Job stands. One that is gone, or in whose place there is another one by now, is NotFound.
func (j *Jobs) State(ctx context.Context, job Job) (State, error) {
	o, err := j.get(ctx, job, "look at job")
	if err != nil {
		return State{}, err
	}
	s := State{Succeeded: int(o.Status.Succeeded), Failed: int(o.Status.Failed)}
	if o.Status.Ready != nil {
		s.Ready = int(*o.Status.Ready)
	}
	if s.Done, s.Broken = ended(o); s.Done {
		return s, nil
	}
	if s.Ready == int(*o.Spec.Parallelism) && !s.Broken {
		return s, nil
	}
	return s, j.explain(ctx, o, &s)
}

// explain reads why pods do not run, or why the Job failed.
func (j *Jobs) explain(ctx context.Context, o *batchv1.Job, s *State) error {
	list, err := j.core.Pods(o.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: batchv1.ControllerUidLabel + "=" + string(o.UID)})
	if err != nil {
		return kubeerr.Wrap(err, "list pods of job", o.Namespace+"/"+o.Name)
	}
	warned := podreason.Warned(ctx, j.core, o.Namespace)
	var running []corev1.Pod
	last := ""
	for i := range list.Items {
		pod := &list.Items[i]
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
		case corev1.PodFailed:
			if last == "" || pod.DeletionTimestamp == nil { // those that are deleted only followed the first one
				last = pod.Name + ": " + podreason.Of(pod, warned[string(pod.UID)])
			}
		default:
			running = append(running, *pod)
		}
	}
	s.Waiting = podreason.All(running, warned)
	if len(list.Items) == 0 {
		if s.refused = podreason.Refused(ctx, j.core, o.Namespace, o.UID); s.refused.Text != "" {
			s.Waiting = []string{"no pod has been made: " + s.refused.Text}
		}
	}
	for _, c := range o.Status.Conditions {
		failed := c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget
		if failed && c.Status == corev1.ConditionTrue {
			s.Why = failure.Line(c.Reason + ": " + c.Message)
		}
	}
	if s.Broken && last != "" {
		s.Why += "; " + last
	}
	return nil
}

// Wait waits until all of the Job is done, and calls progress, unless it is nil, with each state. A Job that failed, or
// of which no pod runs for StartWithin, or none can be made for RefusedWithin, is Unready, and stays as it is; one that
// someone deleted is NotFound. It waits until ctx ends: give it a deadline.
func (j *Jobs) Wait(ctx context.Context, job Job, progress func(State)) error {
	const op = "wait for job"
	ran := time.Now()
	var refusals refusals
	err := wait.Until(ctx, j.pace(), func() (bool, error) {
		s, err := j.State(ctx, job)
		if err != nil {
			return !failure.Transient(err), err
		}
		if s.Ready > 0 {
			ran = time.Now()
		}
		if progress != nil {
			progress(s)
		}
		if s.Broken {
			return true, broken(s, op, job)
		}
		if refusals.last(s.refused, cmp.Or(j.RefusedWithin, refusedWithin)) {
			return true, refused(s.refused.Text, op, job)
		}
		why := waiting(s, op, job)
		if j.StartWithin > 0 && !wait.Younger(ran, j.StartWithin, time.Now()) && !s.Done {
			return true, failure.Wrap(why, failure.Unready, op, job.String())
		}
		return s.Done, why
	})
	return failure.Annotate(wait.Reason(err), op, job.String())
}

// waiting is why a Job is not done.
func waiting(s State, op string, job Job) error {
	if s.Done {
		return nil
	}
	why := fmt.Sprintf("%d of its pods run, %d succeeded", s.Ready, s.Succeeded)
	if len(s.Waiting) > 0 {
		why += "; " + failure.List(s.Waiting)
	}
	return failure.New(failure.Limited, op, job.String(), "%s", why).
		WithHint("kubectl -n %s describe job %s", job.Namespace, job.Name)
}

// broken is the error of a Job that failed.
func broken(s State, op string, job Job) error {
	return failure.New(failure.Unready, op, job.String(), "it failed: %s", s.Why).
		WithHint("kubectl -n %s logs -l %s=%s --tail=20", job.Namespace, batchv1.ControllerUidLabel, job.UID)
}

// Remove deletes a Job and returns once it and its pods are gone. A Job of that name with another UID is another one,
// which stays; one that is marked for another run by now is a Conflict. A Job that is gone is no error. It waits until
// ctx ends: give it a deadline.
func (j *Jobs) Remove(ctx context.Context, job Job) error {
	const op = "remove job"
	if job.UID == "" || job.Run == "" {
		return failure.New(failure.Usage, op, job.String(), "its UID and its run have to be known")
	}
	api, uid := j.core.Jobs(job.Namespace), types.UID(job.UID)
	err := j.until(ctx, func() (bool, error) {
		found, err := api.Get(ctx, job.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && found.UID != uid:
			return true, nil
		case err != nil:
			err = kubeerr.Wrap(err, op, job.String())
			return !failure.Transient(err), err
		case !runmark.MadeBy(found, job.Run):
			return true, failure.New(failure.Conflict, op, job.String(), "it is not of run %s", job.Run).
				WithHint("kubectl -n %s get job %s -o yaml: whose is it?", job.Namespace, job.Name)
		case found.DeletionTimestamp != nil:
			return false, failure.New(failure.Limited, op, job.String(), "its pods have not ended yet").
				WithHint("kubectl -n %s describe job %s", job.Namespace, job.Name)
		}
		err = kubeerr.Wrap(api.Delete(ctx, job.Name, metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &uid},
			PropagationPolicy: new(metav1.DeletePropagationForeground),
		}), op, job.String())
		// Gone, or another one by now: the next question shows it.
		asked := err == nil || failure.Is(err, failure.NotFound) || failure.Is(err, failure.Conflict)
		return !asked && !failure.Transient(err), err
	})
	return failure.Annotate(wait.Reason(err), op, job.String())
}
