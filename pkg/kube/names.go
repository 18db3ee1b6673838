package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// RunKey is the annotation, with the run id as it is, and the label, with its slug, of every object that a run makes.
const RunKey = "tisnap.io/run"

// What TiDB Operator and the EBS CSI driver write on their objects.
const (
	instanceLabel      = "app.kubernetes.io/instance"
	componentLabel     = "app.kubernetes.io/component"
	namespaceLabel     = "app.kubernetes.io/namespace"
	clusterIDLabel     = "tidb.pingcap.com/cluster-id"
	podNameKey         = "tidb.pingcap.com/pod-name"
	volumesReadyKey    = "tidb.pingcap.com/tikv-volumes-ready"
	restoredVolumeKey  = "tikv-volume-restore/volume-id"
	temporaryVolumeKey = "temporary/volume-id"
	lastAppliedKey     = "kubectl.kubernetes.io/last-applied-configuration"
	deleteSlotsSuffix  = "tidb.pingcap.com/delete-slots"

	zoneKey       = "topology.kubernetes.io/zone"
	ebsZoneKey    = "topology.ebs.csi.aws.com/zone"
	oldZoneKey    = "failure-domain.beta.kubernetes.io/zone"
	regionKey     = "topology.kubernetes.io/region"
	oldRegionKey  = "failure-domain.beta.kubernetes.io/region"
	tikvComponent = "tikv"
)

// maxObjectBytes bounds what is written as one object: etcd takes 1.5 MiB in a request, and a restore of
// many stores shares it.
const maxObjectBytes = 200 << 10

// maxLabel is Kubernetes' limit of a label's value.
const maxLabel = 63

// tikvSelector selects what belongs to the TiKV component of a cluster, by TidbCluster.Instance.
func tikvSelector(instance string) metav1.ListOptions {
	return componentSelector(instance, tikvComponent)
}

func componentSelector(instance, component string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: fmt.Sprintf("%s=%s,%s=%s", instanceLabel, instance, componentLabel, component)}
}

func instanceSelector(instance string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: instanceLabel + "=" + instance}
}

// components are those of a TidbCluster that have a StatefulSet, as a pattern.
const components = "(tikv|pd|tidb|ticdc|pump|tiproxy|tiflash)"

// claimOf recognizes by its name a claim that a StatefulSet of the cluster would take for its own, whatever its labels.
func claimOf(name cluster.Name) *regexp.Regexp {
	return regexp.MustCompile(`^(tikv|pd|tidb|ticdc|pump|tiproxy|data\d+)-` + regexp.QuoteMeta(name.Name) +
		`-` + components + `-\d+$`)
}

// slug makes text fit for a label's value and an object's name.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			r = '-'
		}
		b.WriteRune(r)
	}
	s := strings.Trim(b.String(), "-")
	if len(s) > maxLabel {
		s = strings.TrimRight(s[:maxLabel], "-")
	}
	return s
}

// markRun writes the run on an object that is about to be made.
func markRun(m metav1.Object, run cluster.RunID) {
	a, l := maps.Clone(m.GetAnnotations()), maps.Clone(m.GetLabels())
	if a == nil {
		a = map[string]string{}
	}
	if l == nil {
		l = map[string]string{}
	}
	a[RunKey], l[RunKey] = string(run), slug(string(run))
	m.SetAnnotations(a)
	m.SetLabels(l)
}

// madeBy reports whether the run made the object: by the annotation, which has the whole id.
func madeBy(m metav1.Object, run cluster.RunID) bool {
	return run != "" && m.GetAnnotations()[RunKey] == string(run)
}

// checkMade is nil for an object of the run itself; one of anybody else is a Conflict, one that is on its
// way out is Limited.
func checkMade(m metav1.Object, run cluster.RunID, op, target string) error {
	if !madeBy(m, run) {
		by := m.GetAnnotations()[RunKey]
		if by == "" {
			by = "somebody else"
		} else {
			by = "run " + by
		}
		return failure.New(failure.Conflict, op, target, "it exists already and was made by %s", by).
			WithHint("choose another target name, or delete %s first", target)
	}
	if m.GetDeletionTimestamp() != nil {
		return failure.New(failure.Limited, op, target, "it is still being deleted").
			WithHint("run it again when the object is gone")
	}
	return nil
}

// tikvPodName is the name that the StatefulSet gives.
func tikvPodName(name cluster.Name, ordinal int) string {
	return fmt.Sprintf("%s-tikv-%d", name.Name, ordinal)
}

// claimName is the name that the target's pod expects in place of the source's claim: both begin with the
// volume's name, "tikv" or "tikv-NAME", and end with the pod's.
func claimName(source *metav1.ObjectMeta, target cluster.Name, ordinal int) (string, error) {
	// The Operator writes the pod on the claim; before it did so, the claim's instance was the cluster's name.
	pod := regexp.QuoteMeta(cmp.Or(source.Annotations[podNameKey], source.Labels[podNameKey]))
	if instance := source.Labels[instanceLabel]; pod == "" && instance != "" {
		pod = regexp.QuoteMeta(instance) + `-tikv-\d+`
	}
	match := regexp.MustCompile(`^(tikv(?:-.+)?)-` + pod + `$`).FindStringSubmatch(source.Name)
	if pod == "" || match == nil {
		return "", failure.New(failure.Corrupt, "name claim", source.Name,
			"not the claim of a tikv pod of its annotation %s or of the cluster in its label %s", podNameKey, instanceLabel)
	}
	return match[1] + "-" + tikvPodName(target, ordinal), nil
}

// ordinalOf is the number at the end of a pod's name, or -1.
func ordinalOf(pod string) int {
	n, err := strconv.Atoi(pod[strings.LastIndex(pod, "-")+1:])
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// checkSize refuses objects that would not fit etcd, before anything is sent.
func checkSize(o any, target string) error {
	b, err := json.Marshal(o)
	if err != nil {
		return failure.Wrap(err, failure.Usage, "encode object", target)
	}
	if len(b) > maxObjectBytes {
		return failure.New(failure.Usage, "write object", target, "it has %d bytes, more than %d", len(b), maxObjectBytes).
			WithHint("make the source's TidbCluster smaller")
	}
	return nil
}
