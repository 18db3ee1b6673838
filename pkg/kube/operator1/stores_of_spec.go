package operator1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// setStores makes the spec request as many stores as the backup has, with volumes of the restored sizes: the Operator
// would try to resize volumes that differ from the requests, and give new pods the old size.
func setStores(spec map[string]any, to Target) error {
	tikv, ok := spec["tikv"].(map[string]any)
	if !ok {
		if to.Stores == 0 {
			return nil
		}
		return failure.New(failure.Corrupt, "make tidbcluster", to.Name.String(),
			"the source's tidbcluster has no spec.tikv")
	}
	if to.Stores > 0 {
		tikv["replicas"] = int64(to.Stores)
	}
	if size := to.SizesGiB[dataMountPath]; size > 0 {
		requests, _ := tikv["requests"].(map[string]any)
		if requests == nil {
			requests = map[string]any{}
			tikv["requests"] = requests
		}
		setSize(requests, "storage", size)
	}
	volumes, _ := tikv["storageVolumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		path, _ := volume["mountPath"].(string)
		if size := to.SizesGiB[path]; size > 0 {
			setSize(volume, "storageSize", size)
		}
	}
	return nil
}

// setSize keeps an existing value of the same size.
func setSize(in map[string]any, key string, giB int64) {
	if text, ok := in[key].(string); ok {
		if q, err := resource.ParseQuantity(text); err == nil && q.Value() == giB<<30 {
			return
		}
	}
	in[key] = fmt.Sprintf("%dGi", giB)
}

// maxSetName is the longest name of a StatefulSet that can make pods: their label controller-revision-hash, of at
// most 63 characters, is the name, a dash and a hash of ten.
const maxSetName = 52

// checkNameLength rejects a name with which the StatefulSets could not create pods. The API server does not.
func checkNameLength(spec map[string]any, target cluster.Name) error {
	for _, component := range []string{"tiflash", "tiproxy", "ticdc", "tikv", "tidb", "pump", "pd"} {
		limit := maxSetName - len("-"+component)
		if _, has := spec[component].(map[string]any); has && len(target.Name) > limit {
			return failure.New(failure.Usage, "make tidbcluster", target.String(),
				"the name has %d characters, but %s cannot create pods with more than %d", len(target.Name), component,
				limit).
				WithHint("choose a target name of at most %d characters", limit)
		}
	}
	return nil
}
