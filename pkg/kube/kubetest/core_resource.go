package kubetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// coreGroup is the API group of TiDB Operator 2.x.
const coreGroup = "core.pingcap.com"

const coreClusters = "clusters"

// coreKind is a component of TiDB Operator 2.x: a group has instances, and each of these a pod.
type coreKind struct {
	component         string // as labels and the names of pods have it
	group, instance   string // kinds
	groups, instances string // plural names
	short             string // of the group
}

func coreKinds() []coreKind {
	return []coreKind{
		{"pd", "PDGroup", "PD", "pdgroups", "pds", "pdg"},
		{"tikv", "TiKVGroup", "TiKV", "tikvgroups", "tikvs", "kvg"},
		{"tidb", "TiDBGroup", "TiDB", "tidbgroups", "tidbs", "dbg"},
		{"tiflash", "TiFlashGroup", "TiFlash", "tiflashgroups", "tiflashes", "fg"},
		{"ticdc", "TiCDCGroup", "TiCDC", "ticdcgroups", "ticdcs", "cg"},
		{"tiproxy", "TiProxyGroup", "TiProxy", "tiproxygroups", "tiproxies", "pg"},
	}
}

// coreResources are those of TiDB Operator 2.x.
func coreResources() []resource {
	r := func(name, kind string) resource {
		return resource{group: coreGroup, version: "v1alpha1", name: name, kind: kind, namespaced: true, status: true}
	}
	all := []resource{r(coreClusters, "Cluster")}
	for _, k := range coreKinds() {
		group := r(k.groups, k.group)
		group.short = []string{k.short}
		all = append(all, group, r(k.instances, k.instance))
	}
	return all
}

// custom reports whether the resource is of a CustomResourceDefinition.
func (r resource) custom() bool { return r.group == pingcapGroup || r.group == coreGroup }

// validateCore knows the rules in the definitions of TiDB Operator 2.x: how long names may be, what must be there, and what
// can never change.
func validateCore(r resource, o, old object) field.ErrorList {
	limit, template, fixed := 47, "spec", [][]string{{"spec", "cluster", "name"}, {"spec", "subdomain"}, {"spec", "topology"}}
	switch {
	case r.name == coreClusters:
		limit, fixed = 37, [][]string{{"spec", "tlsCluster"}}
	case strings.HasSuffix(r.name, "groups"):
		limit, template, fixed = 40, "spec.template.spec", fixed[:1]
	}
	faults := validateGates(o)
	invalid := func(path, message string) {
		faults = append(faults, field.Invalid(field.NewPath(path), "object", message))
	}
	name := meta(o).GetName()
	if len(name) > limit {
		faults = append(faults, field.Invalid(field.NewPath(""), name, fmt.Sprintf("name must not exceed %d characters", limit)))
	}
	if r.name != coreClusters {
		faults = append(faults, validateComponent(r, o, template)...)
	}
	for _, path := range fixed {
		was, _, _ := unstructured.NestedFieldNoCopy(old, path...)
		now, _, _ := unstructured.NestedFieldNoCopy(o, path...)
		if old != nil && !reflect.DeepEqual(was, now) {
			invalid(strings.Join(path, "."), strings.Join(path[1:], " ")+" is immutable")
		}
	}
	before, _, _ := unstructured.NestedBool(old, "spec", "bootstrapped")
	if after, _, _ := unstructured.NestedBool(o, "spec", "bootstrapped"); before && !after {
		invalid("spec.bootstrapped", "bootstrapped cannot be changed from true to false")
	}
	return faults
}

// validateGates refuses feature gates that a Cluster's definition does not list.
func validateGates(o object) (faults field.ErrorList) {
	known := []string{
		"FeatureModification", "VolumeAttributesClass", "DisablePDDefaultReadinessProbe", "UsePDReadyAPI", "SessionTokenSigning",
		"ClusterSubdomain", "TerminableLogTailer", "UseTSOReadyAPI", "UseSchedulingReadyAPI", "UseTiKVReadyAPI", "UsePDReadyAPIV2",
		"UseTiFlashReadyAPI", "MultiPDGroup", "TiCDCDynamicSecretSyncer", "IndependentKVEngineWorker",
	}
	gates, _, _ := unstructured.NestedSlice(o, "spec", "featureGates")
	for i, gate := range gates {
		if name := nestedText(gate, "name"); !slices.Contains(known, name) {
			faults = append(faults, field.NotSupported(field.NewPath("spec", "featureGates").Index(i).Child("name"), name, known))
		}
	}
	return faults
}

// validateComponent checks what a group or an instance needs; template is the path of the instance's fields.
func validateComponent(r resource, o object, template string) field.ErrorList {
	var faults field.ErrorList
	path := strings.Split(template, ".")
	for _, need := range [][]string{{"spec", "cluster", "name"}, append(slices.Clone(path), "version")} {
		if text, _, _ := unstructured.NestedString(o, need...); text == "" {
			faults = append(faults, field.Required(field.NewPath(need[0], need[1:]...), ""))
		}
	}
	if r.kind != "TiKV" && r.kind != "TiKVGroup" {
		return faults
	}
	list, _, _ := unstructured.NestedSlice(o, append(path, "volumes")...)
	for i, v := range list { // 2.0 demands it, and an empty one is lost in its Operator; later ones do not
		volume, _ := v.(object)
		mounts, _ := volume["mounts"].([]any)
		for j, m := range mounts {
			if mount, _ := m.(object); mount["type"] == nil || mount["type"] == "" {
				at := field.NewPath(template).Child("volumes").Index(i).Child("mounts").Index(j)
				faults = append(faults, field.Required(at.Child("type"), ""))
			}
		}
	}
	if !slices.ContainsFunc(list, func(v any) bool { return nestedText(v, "name") == "data" }) {
		faults = append(faults, field.Invalid(field.NewPath(template), "object", "data volume must be configured"))
	}
	return faults
}

// nestedText is a text in an element of a list; "" if there is none.
func nestedText(element any, path ...string) string {
	o, _ := element.(object)
	text, _, _ := unstructured.NestedString(o, path...)
	return text
}

// Labels of TiDB Operator 2.x, and its finalizer.
const (
	managedByLabel     = "pingcap.com/managed-by"
	componentLabel     = "pingcap.com/component"
	clusterLabel       = "pingcap.com/cluster"
	groupLabel         = "pingcap.com/group"
	instanceOfLabel    = "pingcap.com/instance"
	revisionLabel      = "pingcap.com/instance-revision-hash"
	volumeLabel        = "pingcap.com/volume-name"
	managedBy          = "tidb-operator"
	coreFinalizer      = "pingcap.com/finalizer"
	foundersAnnotation = "pd.core.pingcap.com/initial-cluster-num"
)
