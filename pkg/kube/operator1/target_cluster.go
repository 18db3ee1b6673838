package operator1

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// Target is the cluster that a restore creates.
type Target struct {
	Name cluster.Name
	Run  cluster.RunID
	// Stores is the number of stores in the backup, and so of TiKV pods to create. After a failover the source has
	// more pods than replicas. 0 keeps the source's replicas.
	Stores int
	// SizesGiB has the sizes of a store's volumes by mount path; volumes not in it keep the source's size.
	SizesGiB map[string]int64
	// KeepServiceSettings keeps node ports, host names and load balancer addresses, which the source may still use.
	KeepServiceSettings bool
	Changes             Changes
}

// Made is a TidbCluster made from the source's.
type Made struct {
	Object *unstructured.Unstructured
	// Dropped are the source's settings that were removed, as paths in the spec.
	Dropped []string
}

// Make turns the source's object, or the user's own, into the target's. It keeps the spec except for what Target
// changes.
func Make(source json.RawMessage, to Target) (Made, error) {
	if !to.Changes.Any() {
		return copiedCluster(source, to)
	}
	from, own := source, to.Changes.Manifest != nil
	if own {
		from = to.Changes.Manifest
		if err := checkOwn(source, to); err != nil {
			return Made{}, err
		}
	}
	if to.Changes.Smallest {
		patch, err := smallestPatch(from)
		if err != nil {
			return Made{}, err
		}
		to.Changes.Patches = slices.Insert(slices.Clone(to.Changes.Patches), 0, patch)
	}
	made, err := copiedCluster(from, to)
	if err != nil {
		return Made{}, err
	}
	content, err := to.Changes.patched(made.Object.Object, to.Name)
	if err != nil {
		return Made{}, err
	}
	made.Object = &unstructured.Unstructured{Object: content}
	if err := checkChanged(source, content, to); err != nil {
		return Made{}, err
	}
	spec, _ := content["spec"].(map[string]any)
	if failover, saved := withoutFailover(spec); saved { // a patch has set it
		annotations := made.Object.GetAnnotations()
		annotations[failoverKey] = failover
		made.Object.SetAnnotations(annotations)
	}
	if replicas, saved := withoutTiDB(spec); saved {
		annotations := made.Object.GetAnnotations()
		annotations[tidbReplicasKey] = replicas
		made.Object.SetAnnotations(annotations)
	}
	return made, nil
}

// copiedCluster is Make before patches.
func copiedCluster(from json.RawMessage, to Target) (Made, error) {
	const op = "make tidbcluster"
	target, own := to.Name, to.Changes.Manifest != nil
	var content map[string]any
	if err := decodeObject(from, &content); err != nil {
		return Made{}, failure.Wrap(err, failure.Corrupt, op, target.String())
	}
	spec, ok := content["spec"].(map[string]any)
	if !ok {
		return Made{}, failure.New(failure.Corrupt, op, target.String(), "the source's tidbcluster has no spec")
	}
	if err := checkAlone(spec, target); err != nil {
		return Made{}, err
	}
	if err := checkNameLength(spec, target); err != nil {
		return Made{}, err
	}
	// A cluster that was paused or suspended when it was backed up would never come up.
	delete(spec, "paused")
	delete(spec, "suspendAction")
	spec["recoveryMode"] = true
	was := &unstructured.Unstructured{Object: content}
	withFailover(was) // for a manifest printed by TargetManifest
	withTiDB(was)
	failover, savedFailover := withoutFailover(spec)
	replicas, savedReplicas := withoutTiDB(spec)
	if err := setStores(spec, to); err != nil {
		return Made{}, err
	}
	made := Made{Object: &unstructured.Unstructured{Object: map[string]any{"spec": spec}}}
	if !to.KeepServiceSettings && !own {
		made.Dropped = dropServiceSettings(spec)
	}
	retarget(spec, cmp.Or(was.GetLabels()[InstanceLabel], was.GetName()), target.Name)
	o := made.Object
	// br's clustermeta omits version and kind.
	o.SetAPIVersion(Resource().GroupVersion().String())
	o.SetKind("TidbCluster")
	o.SetName(target.Name)
	o.SetNamespace(target.Namespace)
	o.SetLabels(keptLabels(was.GetLabels(), target, own))
	annotations := keptAnnotations(was.GetAnnotations(), own)
	if savedFailover {
		annotations[failoverKey] = failover
	}
	if savedReplicas {
		annotations[tidbReplicasKey] = replicas
	}
	o.SetAnnotations(annotations)
	runmark.Put(o, to.Run)
	return made, nil
}

// checkAlone rejects a cluster that joins another cluster's PD: its target would join the live source.
func checkAlone(spec map[string]any, target cluster.Name) error {
	other, _ := spec["cluster"].(map[string]any)
	addresses, _ := spec["pdAddresses"].([]any)
	if len(other) == 0 && len(addresses) == 0 {
		return nil
	}
	return failure.New(failure.Usage, "make tidbcluster", target.String(),
		"the source joins another cluster's PD (spec.cluster or spec.pdAddresses), and so would the target").
		WithHint("restore the whole cluster that the source belongs to")
}

// keptLabels drops labels of deployment tools, which would manage the target too and delete it. In the user's own
// manifest they are intended.
func keptLabels(labels map[string]string, target cluster.Name, own bool) map[string]string {
	kept := map[string]string{}
	for k, v := range labels {
		switch {
		case own && k != runmark.Key:
		case k == runmark.Key || toolsOwn(k) || (k == "app.kubernetes.io/managed-by" && v == "Helm"):
			continue
		case k == InstanceLabel:
			v = target.Name
		}
		kept[k] = v
	}
	return kept
}

// keptAnnotations drops annotations of the source's API server, Operator and deployment tools. Delete slots are dropped
// because the target's ordinals begin at 0, and the mark of ready volumes because they are not ready yet.
func keptAnnotations(annotations map[string]string, own bool) map[string]string {
	kept := map[string]string{}
	for k, v := range annotations {
		if k == runmark.Key || k == leftRecoveryKey || k == failoverKey || k == tidbReplicasKey ||
			k == lastAppliedKey || k == volumesReadyKey ||
			strings.HasSuffix(k, deleteSlotsSuffix) || !own && toolsOwn(k) {
			continue
		}
		kept[k] = v
	}
	return kept
}

func toolsOwn(key string) bool {
	for _, prefix := range []string{
		"argocd.argoproj.io/", "meta.helm.sh/", "helm.toolkit.fluxcd.io/", "kustomize.toolkit.fluxcd.io/",
	} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
