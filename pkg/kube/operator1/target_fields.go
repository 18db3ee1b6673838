package operator1

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// formatKeys are the keys of TiKV's configuration for the location and format of its data: with other values a store
// would not open the restored volumes, or would start with empty folders on them.
// https://docs.pingcap.com/tidb/stable/tikv-configuration-file
func formatKeys() []string {
	return []string{
		"storage.data-dir", "storage.api-version", "storage.enable-ttl", "storage.engine", "raft-engine.enable",
		"raft-engine.dir",
		"raftstore.raftdb-path", "rocksdb.wal-dir", "raftdb.wal-dir", "rocksdb.titan.dirname",
	}
}

// checkOwn rejects a user's manifest of another cluster, or one that does not match the restored volumes.
func checkOwn(source json.RawMessage, to Target) error {
	var content map[string]any
	if err := decodeObject(to.Changes.Manifest, &content); err != nil {
		return failure.Wrap(err, failure.Usage, "read manifest", to.Name.String())
	}
	o := &unstructured.Unstructured{Object: content}
	if o.GetKind() == "List" {
		return failure.New(failure.Usage, "read manifest", to.Name.String(),
			"it has objects of TiDB Operator 2.x, and the backup's cluster is of 1.x").
			WithHint("use a file with a TidbCluster")
	}
	namespace := o.GetNamespace()
	if o.GetName() != to.Name.Name || namespace != "" && namespace != to.Name.Namespace {
		return failure.New(failure.Usage, "read manifest", to.Name.String(), "the manifest is for TidbCluster %s/%s",
			namespace, o.GetName()).
			WithHint("make --to and the manifest name the same cluster")
	}
	for key := range o.GetAnnotations() {
		if strings.HasSuffix(key, deleteSlotsSuffix) {
			return failure.New(failure.Usage, "read manifest", to.Name.String(),
				"its annotation %s skips ordinals, but the restored volumes go to the pods from 0 on", key).
				WithHint("remove the annotation, and scale after the restore")
		}
	}
	return refuseDifferences(source, content, to)
}

// checkChanged rejects a target that, with the user's changes, could not open the restored data or would break the
// restore itself.
func checkChanged(source json.RawMessage, content map[string]any, to Target) error {
	o := &unstructured.Unstructured{Object: content}
	recovery, _, _ := unstructured.NestedBool(content, "spec", "recoveryMode")
	if o.GetName() != to.Name.Name || o.GetNamespace() != to.Name.Namespace || o.GetKind() != "TidbCluster" ||
		o.GetAnnotations()[runmark.Key] != string(to.Run) || !recovery {
		return failure.New(failure.Usage, "patch tidbcluster", to.Name.String(),
			"the patch changes the name, kind, run mark or recoveryMode, which the restore needs").
			WithHint("leave these to the restore, which ends recovery mode itself")
	}
	spec, ok := content["spec"].(map[string]any)
	if !ok {
		return failure.New(failure.Usage, "patch tidbcluster", to.Name.String(), "the patch removes the spec")
	}
	if err := checkAlone(spec, to.Name); err != nil {
		return err
	}
	return refuseDifferences(source, content, to)
}

// refuseDifferences rejects a cluster that the restored data would not fit, naming all such fields.
func refuseDifferences(source json.RawMessage, content map[string]any, to Target) error {
	var from map[string]any
	if err := decodeObject(source, &from); err != nil {
		return failure.Wrap(err, failure.Corrupt, "read tidbcluster", to.Name.String())
	}
	want, err := dataFields(from)
	if err != nil {
		return err
	}
	got, err := dataFields(content)
	if err != nil {
		return failure.New(failure.Usage, "compare tidbcluster", to.Name.String(), "%w", err)
	}
	different := otherSizes(content, to)
	for _, field := range slices.Sorted(maps.Keys(union(want, got))) {
		if want[field] != got[field] {
			different = append(different,
				fmt.Sprintf("%s is %q, but the backup has %q", field, got[field], want[field]))
		}
	}
	if len(different) == 0 {
		return nil
	}
	return failure.New(failure.Usage, "compare tidbcluster", to.Name.String(),
		"its stores could not open the restored data: %s", strings.Join(different, "; ")).
		WithHint("set these fields as in the backup (tisnap restore … --print-manifest shows them), and change them " +
			"after the restore")
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// dataFields returns the fields of a TidbCluster that decide whether TiKV can open its data, as texts by path, without
// unset fields.
func dataFields(content map[string]any) (map[string]string, error) {
	spec, _ := content["spec"].(map[string]any)
	tikv, _ := spec["tikv"].(map[string]any)
	fields := map[string]string{}
	for _, version := range []any{spec["version"], tikv["version"]} {
		if text, _ := version.(string); text != "" {
			fields["TiKV's version"] = strings.TrimPrefix(text, "v")
		}
	}
	if folder, _ := tikv["dataSubDir"].(string); folder != "" {
		fields["spec.tikv.dataSubDir"] = folder
	}
	var mounts []string
	volumes, _ := tikv["storageVolumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		mounts = append(mounts, fmt.Sprintf("%v at %v", volume["name"], volume["mountPath"]))
	}
	if len(mounts) > 0 {
		slices.Sort(mounts)
		fields["spec.tikv.storageVolumes"] = strings.Join(mounts, ", ")
	}
	config, err := DataConfig(tikv["config"])
	for key, value := range config {
		fields["spec.tikv.config "+key] = value
	}
	return fields, err
}

// DataConfig returns those settings of a configuration of TiKV, TOML or an object, that decide whether it can open its
// data, as texts by key.
func DataConfig(config any) (map[string]string, error) {
	all, err := configScalars(config)
	maps.DeleteFunc(all, func(key, _ string) bool {
		return !slices.Contains(formatKeys(), key) && !strings.HasPrefix(key, "security.encryption")
	})
	return all, err
}

// otherSizes lists volume sizes that differ from the restored volumes, and a number of stores other than the backup's.
func otherSizes(content map[string]any, to Target) []string {
	var different []string
	tikv, _, _ := unstructured.NestedMap(content, "spec", "tikv")
	if n, has := tikv["replicas"]; has && to.Stores > 0 && fmt.Sprint(n) != fmt.Sprint(to.Stores) {
		different = append(different,
			fmt.Sprintf("spec.tikv.replicas is %v, but the backup has %d stores", n, to.Stores))
	}
	compare := func(path, mount string, size any) {
		giB := to.SizesGiB[mount]
		text, ok := size.(string)
		if !ok || giB == 0 {
			return
		}
		if q, err := resource.ParseQuantity(text); err != nil || q.Value() != giB<<30 {
			different = append(different,
				fmt.Sprintf("%s is %s, but the volumes will have %d GiB (--volume-size)", path, text, giB))
		}
	}
	requested, _, _ := unstructured.NestedFieldNoCopy(tikv, "requests", "storage")
	compare("spec.tikv.requests.storage", dataMountPath, requested)
	volumes, _ := tikv["storageVolumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		mount, _ := volume["mountPath"].(string)
		compare("the storageSize of "+mount, mount, volume["storageSize"])
	}
	return different
}
