package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// etcdRequestLimit is etcd's default of --max-request-bytes.
	etcdRequestLimit = 1536 << 10
	// annotationLimit is the sum of keys and values that the real validation allows.
	annotationLimit = 256 << 10
)

// validate refuses what the real server refuses, of what a restore writes. old is nil at creation.
func validate(r resource, o, old object) error {
	var faults field.ErrorList
	m := meta(o)
	at := field.NewPath("metadata")
	if m.GetName() == "" {
		faults = append(faults, field.Required(at.Child("name"), "name or generateName is required"))
	}
	for _, msg := range known(m.GetName(), &subdomains, validation.IsDNS1123Subdomain) {
		faults = append(faults, field.Invalid(at.Child("name"), m.GetName(), msg))
	}
	for k, v := range m.GetLabels() {
		for _, msg := range slices.Concat(known(k, &labelKeys, validation.IsQualifiedName), known(v, &labelValues, validation.IsValidLabelValue)) {
			faults = append(faults, field.Invalid(at.Child("labels"), k+"="+v, msg))
		}
	}
	total := 0
	for k, v := range m.GetAnnotations() {
		total += len(k) + len(v)
	}
	if total > annotationLimit {
		faults = append(faults, field.TooLong(at.Child("annotations"), "", annotationLimit))
	}
	switch r.name {
	case claims:
		faults = append(faults, validateClaim(o, old)...)
	case volumes:
		faults = append(faults, validateVolume(o, old)...)
	case tidbClusters:
		faults = append(faults, validateCluster(o)...)
	}
	if r.group == coreGroup {
		faults = append(faults, validateCore(r, o, old)...)
	}
	if len(faults) > 0 {
		return apierrors.NewInvalid(r.groupKind(), m.GetName(), faults)
	}
	if atMost(o) <= etcdRequestLimit {
		return nil
	}
	if b, err := json.Marshal(o); err != nil || len(b) > etcdRequestLimit {
		return apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
	}
	return nil
}

// Texts that have been found valid: the same few come again with each write, and the expressions are slow.
var subdomains, labelKeys, labelValues sync.Map

// known returns what is wrong with a text, and asks only once about one that is right.
func known(text string, right *sync.Map, check func(string) []string) []string {
	if _, is := right.Load(text); is {
		return nil
	}
	wrong := check(text)
	if len(wrong) == 0 {
		right.Store(text, true)
	}
	return wrong
}

// atMost is a size that the JSON of a value does not exceed: a character takes six bytes if it is escaped, a number 24.
func atMost(v any) int {
	size := 24
	switch v := v.(type) {
	case string:
		size += 6 * len(v)
	case object:
		for key, value := range v {
			size += 6*len(key) + 4 + atMost(value)
		}
	case []any:
		for _, value := range v {
			size += 1 + atMost(value)
		}
	}
	return size
}

func validateClaim(o, old object) field.ErrorList {
	var faults field.ErrorList
	spec := field.NewPath("spec")
	if modes, _, _ := unstructured.NestedSlice(o, "spec", "accessModes"); len(modes) == 0 {
		faults = append(faults, field.Required(spec.Child("accessModes"), "at least 1 access mode is required"))
	}
	if s, _, _ := unstructured.NestedString(o, "spec", "resources", "requests", "storage"); s == "" {
		faults = append(faults, field.Required(spec.Child("resources", "requests", "storage"), ""))
	}
	if old == nil {
		return faults
	}
	was, now := clone(old), clone(o)
	for _, c := range []object{was, now} {
		unstructured.RemoveNestedField(c, "spec", "resources", "requests")
		unstructured.RemoveNestedField(c, "spec", "volumeAttributesClassName")
	}
	if name, _, _ := unstructured.NestedString(was, "spec", "volumeName"); name == "" { // a binder may fill it in once
		unstructured.RemoveNestedField(now, "spec", "volumeName")
	}
	if !same(was["spec"], now["spec"]) {
		faults = append(faults, field.Forbidden(spec,
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	return faults
}

func validateVolume(o, old object) field.ErrorList {
	var faults field.ErrorList
	spec := field.NewPath("spec")
	if modes, _, _ := unstructured.NestedSlice(o, "spec", "accessModes"); len(modes) == 0 {
		faults = append(faults, field.Required(spec.Child("accessModes"), ""))
	}
	if s, _, _ := unstructured.NestedString(o, "spec", "capacity", "storage"); s == "" {
		faults = append(faults, field.Required(spec.Child("capacity"), ""))
	}
	_, csi, _ := unstructured.NestedMap(o, "spec", "csi")
	_, inTree, _ := unstructured.NestedMap(o, "spec", "awsElasticBlockStore")
	switch {
	case !csi && !inTree:
		faults = append(faults, field.Required(spec, "must specify a volume type"))
	case csi && inTree:
		faults = append(faults, field.Forbidden(spec, "may not specify more than 1 volume type"))
	}
	for _, name := range []string{"driver", "volumeHandle"} {
		if text, _, _ := unstructured.NestedString(o, "spec", "csi", name); csi && text == "" {
			faults = append(faults, field.Required(spec.Child("csi", name), ""))
		}
	}
	if old == nil {
		return faults
	}
	was, _, _ := unstructured.NestedMap(old, "spec", "csi")
	if now, _, _ := unstructured.NestedMap(o, "spec", "csi"); !same(was, now) {
		faults = append(faults, field.Forbidden(spec.Child("persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation: %v", now)))
	}
	return faults
}

// validateCluster knows what of a TidbCluster's definition is an object.
func validateCluster(o object) field.ErrorList {
	var faults field.ErrorList
	for _, path := range [][]string{{"spec"}, {"spec", "pd"}, {"spec", "tikv"}, {"spec", "tidb"}, {"spec", "tlsCluster"}} {
		value, found, err := unstructured.NestedFieldNoCopy(o, path...)
		if _, is := value.(object); found && err == nil && !is {
			faults = append(faults, field.TypeInvalid(field.NewPath(path[0], path[1:]...), value, "must be of type object"))
		}
	}
	return faults
}
