package operator2

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
)

// claimDoc is a claim of which labels and name are changed.
type claimDoc struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   map[string]any  `json:"spec"`
	Status json.RawMessage `json:"status,omitempty"`
}

func (b *backward) readClaims(claims []json.RawMessage) error {
	for _, raw := range claims {
		var claim claimDoc
		if err := json.Unmarshal(raw, &claim); err != nil {
			return failure.Wrap(err, failure.Corrupt, translatingBack, "a claim")
		}
		b.claims = append(b.claims, claim)
	}
	return nil
}

// stores carries over the first TiKVGroup for the stores of all, whose data must be where the first has its.
func (b *backward) stores(groups []*unstructured.Unstructured, template, out, requests map[string]any) error {
	first := specOf(groups[0])
	for _, o := range groups[1:] {
		other := specOf(o)
		if mountsOf(other) != mountsOf(first) || versionOf(other) != versionOf(first) {
			return b.refuse("the volumes or versions of its TiKVGroups %s and %s differ, and TiDB Operator 1.x has "+
				"one group", groups[0].GetName(), o.GetName())
		}
		b.out.Configs = append(b.out.Configs, Config{o.GetName(), configOf(other), configOf(first)})
		b.lose(o.GetKind()+" "+o.GetName(), different(flat(other), flat(first)))
	}
	out["replicas"] = int64(len(b.ordinals))
	var more []any
	volumes, _ := take(template, "volumes").([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		name, _ := volume["name"].(string)
		path, isData, err := b.mount(name, volume)
		if err != nil {
			return err
		}
		class := volume["storageClassName"]
		if class == nil {
			class = b.classOf(name) // 1.x would take that of the data for other volumes
		}
		if isData {
			b.data, requests["storage"] = name, volume["storage"]
			if class != nil {
				out["storageClassName"] = class
			}
			continue
		}
		with := map[string]any{"name": name, "mountPath": path, "storageSize": volume["storage"]}
		if class != nil {
			with["storageClassName"] = class
		}
		more = append(more, with)
	}
	if b.data == "" {
		return failure.New(failure.Corrupt, translatingBack, b.of.String(), "its TiKVs have no volume of type data")
	}
	if len(more) > 0 {
		out["storageVolumes"] = more
	}
	return b.nameClaims()
}

// mount returns where a volume of the TiKVs is mounted, and whether their data are there.
func (b *backward) mount(name string, volume map[string]any) (path string, isData bool, err error) {
	mounts, _ := volume["mounts"].([]any)
	if len(mounts) != 1 {
		return "", false, b.refuse("volume %s of its TiKVs is mounted at %d paths, and TiDB Operator 1.x has one", name,
			len(mounts))
	}
	mount, _ := mounts[0].(map[string]any)
	path, _ = mount["mountPath"].(string)
	isData = mount["type"] == dataMount
	switch {
	case mount["subPath"] != nil && mount["subPath"] != "":
		err = b.refuse("its TiKVs store data in the folder %v of volume %s, and TiDB Operator 1.x in the volume "+
			"itself", mount["subPath"], name)
	case isData && path != "" && strings.TrimSuffix(path, "/") != defaultDataPath:
		err = b.refuse("its TiKVs store data in %s, and TiDB Operator 1.x in %s", path, defaultDataPath)
	case !isData && path == "":
		err = b.refuse("volume %s of its TiKVs is mounted where only TiDB Operator 2.x knows", name)
	}
	return path, isData, err
}

func versionOf(group map[string]any) string {
	v, _, _ := unstructured.NestedString(group, "template", "spec", "version")
	return strings.TrimPrefix(v, "v")
}

// classOf is the StorageClass that claims of a volume have; nil if none.
func (b *backward) classOf(volume string) any {
	for i := range b.claims {
		if b.claims[i].Labels[volumeLabel] == volume {
			return b.claims[i].Spec["storageClassName"]
		}
	}
	return nil
}

// nameClaims names and labels the claims as those of the pods of a StatefulSet, in the order of the backup's stores.
func (b *backward) nameClaims() error {
	for _, claim := range b.claims {
		ordinal, ok := b.ordinals[claim.Labels[instanceLabel]]
		volume := claim.Labels[volumeLabel]
		if !ok || volume == "" {
			return failure.New(failure.Corrupt, translatingBack, claim.Name,
				"it is not the claim of a TiKV of the backup")
		}
		pod := fmt.Sprintf("%s-%s-%d", b.of.Name, tikv, ordinal)
		was := claim.Name
		claim.Name = tikv + "-" + volume + "-" + pod
		if volume == b.data {
			claim.Name = tikv + "-" + pod
		}
		b.out.Renamed[was] = claim.Name
		maps.DeleteFunc(claim.Labels, func(key, _ string) bool { return strings.HasPrefix(key, "pingcap.com/") })
		maps.Copy(claim.Labels, map[string]string{
			"app.kubernetes.io/name": "tidb-cluster", "app.kubernetes.io/managed-by": managedBy,
			"app.kubernetes.io/component": tikv, "app.kubernetes.io/instance": b.of.Name,
		})
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations["tidb.pingcap.com/pod-name"] = pod
		raw, err := json.Marshal(claim)
		if err != nil {
			return failure.Wrap(err, failure.Corrupt, translatingBack, claim.Name)
		}
		b.out.Claims = append(b.out.Claims, raw)
	}
	return nil
}

// ordinalsOf numbers the instances in the order of their pods' names, as a backup does.
func ordinalsOf(stores map[string][]*unstructured.Unstructured) map[string]int {
	var names []string
	for _, of := range stores {
		for _, o := range of {
			names = append(names, o.GetName())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(podName(a), podName(b)) })
	ordinals := map[string]int{}
	for i, name := range names {
		ordinals[name] = i
	}
	return ordinals
}

// flat are the fields of a group's spec, with those of its template by their paths.
func flat(spec map[string]any) map[string]any {
	out := map[string]any{}
	for field, value := range spec {
		if of, isTable := value.(map[string]any); isTable && slices.Contains(
			[]string{"template", "template.spec", "template.metadata"}, field) {
			inner := map[string]any{}
			for k, v := range of {
				inner[field+"."+k] = v
			}
			maps.Copy(out, flat(inner))
			continue
		}
		out[field] = value
	}
	return out
}

// different are the fields that are not equal in both, except for those that a group of its own has.
func different(one, other map[string]any) map[string]any {
	out := map[string]any{}
	for _, fields := range []map[string]any{one, other} {
		for field, value := range fields {
			if !reflect.DeepEqual(one[field], other[field]) && field != "replicas" && field != "template.spec.volumes" {
				out[field] = value
			}
		}
	}
	return out
}
