package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// The labels of a zone and its region, which the EBS CSI driver and Kubernetes write on volumes.
const (
	zoneKey      = corev1.LabelTopologyZone
	ebsZoneKey   = "topology.ebs.csi.aws.com/zone"
	oldZoneKey   = corev1.LabelFailureDomainBetaZone
	regionKey    = corev1.LabelTopologyRegion
	oldRegionKey = corev1.LabelFailureDomainBetaRegion
)

// ownKeys begin the annotations by which runs know what they made; those of the source are of another run.
const ownKeys = "tisnap.io/"

// restoredClaim is the source's claim under the target's name, bound to the PV by name.
func restoredClaim(
	from *corev1.PersistentVolumeClaim, v RestoredVolume, store restoredStore, name, pvName string,
) *corev1.PersistentVolumeClaim {
	annotations := withoutPrefixes(from.Annotations,
		"pv.kubernetes.io/", "volume.kubernetes.io/selected-node", corev1.LastAppliedConfigAnnotation, ownKeys)
	store.RenamePod(annotations)
	pvc := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: v.Cluster.Namespace,
			Labels: store.Labels(from.Labels), Annotations: annotations,
		},
		Spec: *from.Spec.DeepCopy(),
	}
	pvc.Spec.VolumeName = pvName
	// A selector or a data source would make the claim choose, or create, another volume.
	pvc.Spec.Selector, pvc.Spec.DataSource, pvc.Spec.DataSourceRef = nil, nil, nil
	pvc.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size(v.SizeGiB)}
	pvc.Spec.Resources.Limits = nil
	if v.Filled != nil {
		pvc.Spec.StorageClassName, pvc.Spec.VolumeAttributesClassName = &v.Filled.Class, nil
	}
	runmark.Put(pvc, v.Run)
	return pvc
}

// restoredVolume is the source's PV for the restored EBS volume, in its zone, reserved for the claim. Its policy is
// Retain: a mistaken kubectl delete of the claim must not delete the data.
func restoredVolume(
	from *corev1.PersistentVolume, v RestoredVolume, store restoredStore, claim, pvName string,
) *corev1.PersistentVolume {
	annotations := withoutPrefixes(from.Annotations,
		"pv.kubernetes.io/bound-by-controller", operator1.TemporaryVolumeKey, corev1.LastAppliedConfigAnnotation,
		operator1.RestoredVolumeKey, ownKeys)
	store.RenamePod(annotations)
	if v.Filled == nil {
		annotations[operator1.RestoredVolumeKey] = string(v.Volume)
	}
	if v.Expires != "" {
		annotations[cage.ExpiresKey] = v.Expires
	}
	labels := store.Labels(from.Labels)
	if _, has := labels[operator1.NamespaceLabel]; has {
		labels[operator1.NamespaceLabel] = v.Cluster.Namespace
	}
	for _, key := range []string{zoneKey, ebsZoneKey, oldZoneKey} {
		if _, has := labels[key]; has && v.Zone != "" {
			labels[key] = string(v.Zone)
		} else if has {
			delete(labels, key)
		}
	}
	for _, key := range []string{regionKey, oldRegionKey} {
		if !strings.HasPrefix(string(v.Zone), labels[key]) {
			delete(labels, key)
		}
	}
	pv := &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: pvName, Labels: labels, Annotations: annotations},
		Spec:       *from.Spec.DeepCopy(),
	}
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: csiSource(&from.Spec, v.Volume)}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: size(v.SizeGiB)}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	pv.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: v.Cluster.Namespace, Name: claim,
	}
	pv.Spec.NodeAffinity = zoneAffinity(from.Spec.NodeAffinity, v.Zone)
	if v.Filled != nil { // the driver knows where its volume is
		pv.Spec.NodeAffinity = nil
		pv.Spec.StorageClassName, pv.Spec.VolumeAttributesClassName = v.Filled.Class, nil
	}
	runmark.Put(pv, v.Run)
	return pv
}

// csiSource keeps the file system and attributes; in-tree volumes become CSI volumes, the only kind that current
// Kubernetes attaches.
func csiSource(from *corev1.PersistentVolumeSpec, id cluster.VolumeID) *corev1.CSIPersistentVolumeSource {
	csi := &corev1.CSIPersistentVolumeSource{}
	switch {
	case from.CSI != nil:
		csi = from.CSI.DeepCopy()
	case from.AWSElasticBlockStore != nil:
		csi.FSType, csi.ReadOnly = from.AWSElasticBlockStore.FSType, from.AWSElasticBlockStore.ReadOnly
	}
	csi.Driver, csi.VolumeHandle = sourceDriver(from), string(id)
	return csi
}

// zoneAffinity ties a volume to its zone under both keys, in a term per key since nodes may have only one of the
// labels, and under the deprecated key if the source uses it. Other requirements of the source are kept, but not a
// region other than the zone's.
func zoneAffinity(from *corev1.VolumeNodeAffinity, zone cluster.Zone) *corev1.VolumeNodeAffinity {
	keys := []string{zoneKey, ebsZoneKey}
	var others []corev1.NodeSelectorRequirement
	if from != nil && from.Required != nil {
		for _, term := range from.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				switch e.Key {
				case zoneKey, ebsZoneKey:
				case oldZoneKey:
					if !slices.Contains(keys, oldZoneKey) {
						keys = append(keys, oldZoneKey)
					}
				case regionKey, oldRegionKey:
					if slices.ContainsFunc(e.Values,
						func(r string) bool { return strings.HasPrefix(string(zone), r) }) {
						others = append(others, e)
					}
				default:
					others = append(others, e)
				}
			}
		}
	}
	others = slices.CompactFunc(others,
		func(a, b corev1.NodeSelectorRequirement) bool { return a.String() == b.String() })
	terms := make([]corev1.NodeSelectorTerm, len(keys))
	for i, key := range keys {
		terms[i].MatchExpressions = append([]corev1.NodeSelectorRequirement{{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{string(zone)},
		}}, others...)
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

func withoutPrefixes(from map[string]string, prefixes ...string) map[string]string {
	kept := map[string]string{}
	for k, v := range from {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k, p) }) {
			kept[k] = v
		}
	}
	return kept
}

func size(giB int64) resource.Quantity { return resource.MustParse(fmt.Sprintf("%dGi", giB)) }
