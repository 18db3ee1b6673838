package cage

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Pods is the Prober of pods that run nc of the image, as that of busybox.
type Pods struct {
	Core  *typed.Client
	Run   cluster.RunID
	Image string
	// Interval is the pause between two questions about a pod; 0 is 1 s.
	Interval time.Duration
}

const (
	probePort = 8080
	// connectSeconds bounds a connection; podWithin a pod, with the pull of its image.
	connectSeconds = 3
	podWithin      = 3 * time.Minute
	podInterval    = time.Second
	unprivileged   = 65534
	// podLifetime is after what time a pod ends by itself: a proof takes less.
	podLifetime = 30 * time.Minute
)

// Listen implements Prober.
func (p *Pods) Listen(ctx context.Context, namespace, name string) (string, error) {
	pod := p.pod(name, "nc", "-lk", "-p", strconv.Itoa(probePort), "-e", "true")
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		PeriodSeconds: 1,
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(probePort)}},
	}
	made, err := p.start(ctx, namespace, pod, func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return pod.Status.PodIP != ""
			}
		}
		return false
	})
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(made.Status.PodIP, strconv.Itoa(probePort)), nil
}

// Connect implements Prober.
func (p *Pods) Connect(ctx context.Context, namespace, name, address string) (bool, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return false, failure.Wrap(err, failure.Usage, "connect", address)
	}
	pod := p.pod(name, "nc", "-w", strconv.Itoa(connectSeconds), host, number)
	made, err := p.start(ctx, namespace, pod, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	if err != nil {
		return false, err
	}
	for _, s := range made.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && (t.ExitCode == 0 || t.ExitCode == 1) {
			return t.ExitCode == 0, nil // 1 is that of nc; a shell or the kubelet have others
		}
	}
	return false, failure.New(failure.Unready, "connect", address, "pod %s/%s ended without an answer of nc", namespace,
		made.Name).WithHint(hintProbe, namespace)
}

// Remove implements Prober.
func (p *Pods) Remove(ctx context.Context, namespace string) error {
	return removeProbes(ctx, p.Core, p.Run, namespace)
}

// RemoveProbes deletes the pods that probes of a run left in a namespace, by its mark and their UIDs.
func (c *Cages) RemoveProbes(ctx context.Context, run cluster.RunID, namespace string) error {
	return removeProbes(ctx, c.core, run, namespace)
}

func removeProbes(ctx context.Context, core *typed.Client, run cluster.RunID, namespace string) error {
	list, err := core.Pods(namespace).List(ctx, runmark.Selector(run))
	if err != nil {
		return kubeerr.Wrap(err, "list probes", namespace)
	}
	var left []error
	for i := range list.Items {
		pod := &list.Items[i]
		if !runmark.MadeBy(pod, run) {
			continue
		}
		err := core.Pods(namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			left = append(left, kubeerr.Wrap(err, "delete probe", namespace+"/"+pod.Name))
		}
	}
	return errors.Join(left...)
}

// pod is one that a namespace with restricted Pod Security takes. Each has a name of its own, and ends by itself.
func (p *Pods) pod(name string, command ...string) *corev1.Pod {
	yes, no, user := true, false, int64(unprivileged)
	lifetime := int64(podLifetime.Seconds())
	small := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "tisnap-probe-" + runmark.Slug(string(p.Run)) + "-" + name + "-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: &lifetime,
			AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "probe", Image: p.Image, Command: command,
				Resources: corev1.ResourceRequirements{Requests: small},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	runmark.Put(pod, p.Run)
	return pod
}

// start makes a pod and waits until it is as it should be.
func (p *Pods) start(
	ctx context.Context, namespace string, pod *corev1.Pod, ready func(*corev1.Pod) bool,
) (*corev1.Pod, error) {
	const op = "probe"
	made, err := p.Core.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, op, namespace)
	}
	target := namespace + "/" + made.Name
	bounded, cancel := context.WithTimeout(ctx, podWithin)
	defer cancel()
	err = wait.Until(bounded, wait.Every(cmp.Or(p.Interval, podInterval)), func() (bool, error) {
		found, err := p.Core.Pods(namespace).Get(bounded, made.Name, metav1.GetOptions{})
		if err != nil {
			err = kubeerr.Wrap(err, op, target)
			return !failure.Transient(err), err
		}
		made = found
		return ready(made), failure.New(failure.Unready, op, target, "it is %s", made.Status.Phase).
			WithHint(hintProbe, namespace)
	})
	if ready(made) {
		return made, nil
	}
	return nil, failure.Annotate(wait.Reason(err), op, target)
}
