package workers

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// ZoneLabel is the label of nodes with their zone.
const ZoneLabel = corev1.LabelTopologyZone

// Spec is a Job of pods that run tisnap.
type Spec struct {
	Run cluster.RunID
	// Namespace and Name are the Job's. The pods are called after it: Name has at most MaxName characters.
	Namespace, Name string
	Image           string
	Args            []string
	Env             map[string]string
	// ServiceAccount is the pods' identity, as to AWS; "" is the namespace's default. Its token for Kubernetes is not
	// in the pods.
	ServiceAccount string
	Secrets        []Secret
	Devices        []Device
	// Pods run at the same time. With Indexed each has an index, in $JOB_COMPLETION_INDEX and the pod's host name, and
	// is replaced by one of the same; otherwise there is one pod.
	Pods    int
	Indexed bool
	// Retries is how often a pod, or that of an index, may fail and is made again.
	Retries int
	// Final are the exit codes after which no pod is made again: the whole Job fails.
	Final []int
	// CPU and Memory are requested, such as 1 and 512Mi; MemoryLimit is the pods' limit.
	CPU, Memory, MemoryLimit string
	NodeSelector             map[string]string
	// Tolerations are KEY, KEY:EFFECT, KEY=VALUE or KEY=VALUE:EFFECT, as of `kubectl taint`.
	Tolerations []string
	// Beside are the rules of another pod, which may run wherever these pods do: they tolerate what it does, too. nil
	// is for none.
	Beside *podnodes.Rules
	// Root is for devices that belong to root on the node, as block devices do unless the container runtime gives them
	// to the pod's user. The pods have no capability either way; the namespace must not enforce the restricted level.
	Root bool
	// Grace is how long a pod may take to end once it is asked to; Within how long all may take, 0 is without a limit;
	// Keep how long what has ended stays, 0 is until it is removed.
	Grace, Within, Keep time.Duration
}

// Secret is one whose keys are files below a folder of the pods.
type Secret struct{ Name, Folder string }

// Device is a claim of volumeMode Block and its path in the pods.
type Device struct{ Claim, Path string }

const (
	// MaxName leaves room for an index in a pod's host name.
	MaxName = 57
	// container is the name of the pods' only one.
	container = "tisnap"
	// digestKey is an annotation: of what the Job was made.
	digestKey    = "tisnap.io/job-spec"
	unprivileged = 65532
)

func (s *Spec) validate() error {
	const op = "make job"
	bad := func(format string, args ...any) error {
		return failure.New(failure.Usage, op, s.Namespace+"/"+s.Name, format, args...)
	}
	switch {
	case s.Run == "" || s.Namespace == "" || s.Name == "" || s.Image == "" || len(s.Args) == 0:
		return bad("it needs a run, a namespace, a name, an image and arguments")
	case len(s.Name) > MaxName:
		return bad("its name has more than %d characters", MaxName)
	case s.Pods < 1 || s.Pods > 1 && !s.Indexed:
		return bad("%d pods: want at least one, or exactly one if it is not indexed", s.Pods)
	}
	for _, q := range []string{s.CPU, s.Memory, s.MemoryLimit} {
		if q == "" {
			continue
		}
		if _, err := resource.ParseQuantity(q); err != nil {
			return bad("%s is no quantity, such as 500m or 2Gi", q)
		}
	}
	return nil
}

// Object is the Job that Make makes, as a manifest would have it.
func Object(s Spec) (*batchv1.Job, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: appLabels()},
		Spec: batchv1.JobSpec{
			PodFailurePolicy:     s.onFailure(),
			PodReplacementPolicy: new(batchv1.Failed), // never two pods of one index, or on one device
			Template:             s.template(),
		},
	}
	pods, retries := saturate.To[int32](s.Pods), saturate.To[int32](s.Retries)
	job.Spec.Parallelism, job.Spec.Completions = &pods, &pods
	if s.Indexed {
		job.Spec.CompletionMode = new(batchv1.IndexedCompletion)
		job.Spec.BackoffLimitPerIndex = &retries
	} else {
		job.Spec.BackoffLimit = &retries
	}
	if s.Keep > 0 {
		job.Spec.TTLSecondsAfterFinished = new(saturate.To[int32](int64(s.Keep.Seconds())))
	}
	if s.Within > 0 {
		job.Spec.ActiveDeadlineSeconds = new(int64(s.Within.Seconds()))
	}
	runmark.Put(job, s.Run)
	runmark.Put(&job.Spec.Template, s.Run)
	digest, err := digestOf(job)
	job.Annotations[digestKey] = digest
	return job, err
}

// Manifest is Object as JSON.
func Manifest(s Spec) (json.RawMessage, error) {
	job, err := Object(s)
	if err != nil {
		return nil, err
	}
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		return nil, failure.Wrap(err, failure.Unknown, "make job", s.Name)
	}
	delete(o, "status")
	return json.Marshal(o)
}

// onFailure does not count pods that Kubernetes ended, and ends the Job by an exit code after which a retry is of no
// use.
func (s *Spec) onFailure() *batchv1.PodFailurePolicy {
	policy := &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		},
	}}}
	if len(s.Final) > 0 {
		codes := make([]int32, len(s.Final))
		for i, c := range s.Final {
			codes[i] = saturate.To[int32](c)
		}
		slices.Sort(codes)
		policy.Rules = append(policy.Rules, batchv1.PodFailurePolicyRule{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(container), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values: slices.Compact(codes),
			},
		})
	}
	return policy
}

func appLabels() map[string]string { return map[string]string{"app.kubernetes.io/name": "tisnap"} }

func (s *Spec) template() corev1.PodTemplateSpec {
	user := int64(unprivileged)
	if s.Root {
		user = 0
	}
	c := corev1.Container{
		Name: container, Image: s.Image, Args: s.Args, Resources: s.resources(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, // the error is in the pod's status
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: s.Env[name]})
	}
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: s.ServiceAccount,
		AutomountServiceAccountToken:  new(false),
		TerminationGracePeriodSeconds: new(int64(s.Grace.Seconds())),
		NodeSelector:                  s.NodeSelector,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(!s.Root), RunAsUser: &user, RunAsGroup: &user,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	spec.Tolerations = s.Rules().Tolerations
	if s.Beside != nil {
		spec.Tolerations = append(spec.Tolerations, s.Beside.Tolerations...)
		if required := s.Beside.Required(); required != nil {
			spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: required,
			}}
		}
	}
	s.mount(&spec, &c)
	spec.Containers = []corev1.Container{c}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: appLabels()}, Spec: spec}
}

// mount adds the secrets and devices.
func (s *Spec) mount(spec *corev1.PodSpec, c *corev1.Container) {
	for _, secret := range s.Secrets {
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name:         "secret-" + secret.Name,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret.Name}},
		})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name: "secret-" + secret.Name, MountPath: secret.Folder, ReadOnly: true,
		})
	}
	for _, device := range s.Devices {
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name: "device-" + device.Claim,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: device.Claim},
			},
		})
		c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{
			Name: "device-" + device.Claim, DevicePath: device.Path,
		})
	}
}

// resources of quantities that validate parsed.
func (s *Spec) resources() (out corev1.ResourceRequirements) {
	out.Requests, out.Limits = corev1.ResourceList{}, corev1.ResourceList{}
	for _, one := range []struct {
		in    corev1.ResourceList
		name  corev1.ResourceName
		value string
	}{
		{out.Requests, corev1.ResourceCPU, s.CPU},
		{out.Requests, corev1.ResourceMemory, s.Memory},
		{out.Limits, corev1.ResourceMemory, s.MemoryLimit},
	} {
		if one.value != "" {
			one.in[one.name] = resource.MustParse(one.value)
		}
	}
	return out
}

// Rules are what the pods themselves ask of their nodes, without Beside.
func (s *Spec) Rules() podnodes.Rules {
	r := podnodes.Rules{NodeSelector: s.NodeSelector}
	for _, t := range s.Tolerations {
		r.Tolerations = append(r.Tolerations, toleration(t))
	}
	return r
}

func toleration(text string) corev1.Toleration {
	taint, effect, _ := strings.Cut(text, ":")
	key, value, exact := strings.Cut(taint, "=")
	t := corev1.Toleration{
		Key: key, Value: value, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect),
	}
	if exact {
		t.Operator = corev1.TolerationOpEqual
	}
	return t
}

// digestOf is of all that the Job was asked to be.
func digestOf(job *batchv1.Job) (string, error) {
	text, err := json.Marshal(job.Spec)
	if err != nil {
		return "", failure.Wrap(err, failure.Unknown, "make job", job.Name)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// NameOf is the name of a run's Job for a purpose, such as "archive".
func NameOf(purpose string, run cluster.RunID) string {
	name := cmp.Or(purpose, "job") + "-" + runmark.Slug(string(run))
	return strings.TrimRight(name[:min(len(name), MaxName)], "-")
}
