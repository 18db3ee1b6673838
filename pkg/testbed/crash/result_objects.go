package crash

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/manifest"
)

// objects are the target's, by resource and name; a volume has the name of its claim.
func (s *scene) objects() map[string]any {
	out := map[string]any{}
	for _, resource := range targetResources() {
		for _, o := range s.bed.Kube.List(resource, s.target.Namespace) {
			if isOf(o, s.target.Name) {
				unstructured.RemoveNestedField(o.Object, "status", "tikv", "stores") // by the ids of stores
				out[resource+"/"+o.GetName()] = o.Object
			}
		}
	}
	for _, pv := range s.bed.Kube.List("persistentvolumes", "") {
		claim, _, _ := unstructured.NestedString(pv.Object, "spec", "claimRef", "name")
		if out["persistentvolumeclaims/"+claim] != nil {
			out["persistentvolumes/"+claim] = pv.Object
		}
	}
	return out
}

// targetResources are those in which a target has objects, with either Operator.
func targetResources() []string {
	return []string{
		"tidbclusters", "clusters", "pdgroups", "tikvgroups", "tidbgroups", "pds", "tikvs", "tidbs",
		"configmaps", "services", "persistentvolumeclaims", "pods",
	}
}

// isOf reports whether an object is a cluster, or belongs to it.
func isOf(o *unstructured.Unstructured, name string) bool {
	of, _, _ := unstructured.NestedString(o.Object, "spec", "cluster", "name")
	return slices.Contains([]string{
		o.GetName(), of, o.GetLabels()["app.kubernetes.io/instance"], o.GetLabels()["pingcap.com/cluster"],
	}, name)
}

// volumes are those of the target's claims.
func (s *scene) volumes() []any {
	var out []any
	for _, id := range s.bed.Volumes(s.target) {
		if v, ok := s.bed.EC2.Volume(id); ok {
			out = append(out, v)
		}
	}
	return out
}

// readDeleted lists what is stored of the scene's backups: of one that is deleted, and of the one that a prune keeps.
func (s *scene) readDeleted(ctx context.Context, docs map[string]any) error {
	objects, err := s.store.List(ctx, manifest.BackupsPrefix+s.name)
	if err != nil {
		return err
	}
	keys := make([]string, 0, len(objects))
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	slices.Sort(keys)
	docs["objects"] = keys
	return nil
}
