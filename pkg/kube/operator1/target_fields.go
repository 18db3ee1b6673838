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

// formatKeys are the keys of TiKV's configuration that say where its data are and in which format: with other values a
// store would not open the restored volumes, or would begin with empty folders on them.
// https://docs.pingcap.com/tidb/stable/tikv-configuration-file
func formatKeys() []string {
	return []string{
		"storage.data-dir", "storage.api-version", "storage.enable-ttl", "storage.engine", "raft-engine.enable",
		"raft-engine.dir",
		"raftstore.raftdb-path", "rocksdb.wal-dir", "raftdb.wal-dir", "rocksdb.titan.dirname",
	}
}

// checkOwn refuses a manifest of the user's that is of another cluster, or would ask for other volumes than are made.
func checkOwn(source json.RawMessage, to Target) error {
	var content map[string]any
	if err := decodeObject(to.Changes.Manifest, &content); err != nil {
		return failure.Wrap(err, failure.Usage, "read manifest", to.Name.String())
	}
	o := &unstructured.Unstructured{Object: content}
	namespace := o.GetNamespace()
	if o.GetName() != to.Name.Name || namespace != "" && namespace != to.Name.Namespace {
		return failure.New(failure.Usage, "read manifest", to.Name.String(), "the manifest is of TidbCluster %s/%s",
			namespace, o.GetName()).
			WithHint("make --to and the manifest name the same cluster")
	}
	for key := range o.GetAnnotations() {
		if strings.HasSuffix(key, deleteSlotsSuffix) {
			return failure.New(failure.Usage, "read manifest", to.Name.String(),
				"its annotation %s leaves out ordinals, and the restored volumes go to the pods from 0 on", key).
				WithHint("take the annotation out, and scale after the restore")
		}
	}
	return refuseDifferences(source, content, to)
}

// checkChanged refuses a target that, changed as the user asked, could not open the restored data, or would not be
// the one that the restore works with.
func checkChanged(source json.RawMessage, content map[string]any, to Target) error {
	o := &unstructured.Unstructured{Object: content}
	recovery, _, _ := unstructured.NestedBool(content, "spec", "recoveryMode")
	if o.GetName() != to.Name.Name || o.GetNamespace() != to.Name.Namespace || o.GetKind() != "TidbCluster" ||
		o.GetAnnotations()[runmark.Key] != string(to.Run) || !recovery {
		return failure.New(failure.Usage, "patch tidbcluster", to.Name.String(),
			"the patch changes its name, its kind, the mark of the run, or recoveryMode, by which the restore works").
			WithHint("leave these to the restore: it takes the cluster out of recovery mode at the end")
	}
	spec, ok := content["spec"].(map[string]any)
	if !ok {
		return failure.New(failure.Usage, "patch tidbcluster", to.Name.String(), "the patch takes its spec away")
	}
	if err := checkAlone(spec, to.Name); err != nil {
		return err
	}
	return refuseDifferences(source, content, to)
}

// refuseDifferences names all fields in which the restored data would not fit the cluster.
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
				fmt.Sprintf("%s is %q, and the backup has %q", field, got[field], want[field]))
		}
	}
	if len(different) == 0 {
		return nil
	}
	return failure.New(failure.Usage, "compare tidbcluster", to.Name.String(),
		"its stores could not open the restored data: %s", strings.Join(different, "; ")).
		WithHint("make these fields as the backup has them (tisnap restore … --print-manifest shows them), and " +
			"change them after the restore")
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// dataFields are the fields of a TidbCluster on which it depends whether TiKV can open its data, as texts by their
// paths. A field that is not set is not there.
func dataFields(content map[string]any) (map[string]string, error) {
	spec, _ := content["spec"].(map[string]any)
	tikv, _ := spec["tikv"].(map[string]any)
	fields := map[string]string{}
	for _, version := range []any{spec["version"], tikv["version"]} {
		if text, _ := version.(string); text != "" {
			fields["the version of TiKV"] = strings.TrimPrefix(text, "v")
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
	config, err := configScalars(tikv["config"])
	if err != nil {
		return nil, err
	}
	for key, value := range config {
		if slices.Contains(formatKeys(), key) || strings.HasPrefix(key, "security.encryption") {
			fields["spec.tikv.config "+key] = value
		}
	}
	return fields, nil
}

// otherSizes names the requests of volumes that differ from what is made, and another number of stores.
func otherSizes(content map[string]any, to Target) []string {
	var different []string
	tikv, _, _ := unstructured.NestedMap(content, "spec", "tikv")
	if n, has := tikv["replicas"]; has && to.Stores > 0 && fmt.Sprint(n) != fmt.Sprint(to.Stores) {
		different = append(different,
			fmt.Sprintf("spec.tikv.replicas is %v, and the backup has %d stores", n, to.Stores))
	}
	compare := func(path, mount string, asked any) {
		giB := to.SizesGiB[mount]
		text, ok := asked.(string)
		if !ok || giB == 0 {
			return
		}
		if q, err := resource.ParseQuantity(text); err != nil || q.Value() != giB<<30 {
			different = append(different,
				fmt.Sprintf("%s is %s, and the volumes are made with %d GiB (--volume-size)", path, text, giB))
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
