package crash

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// differing are the paths of what two runs of the same cluster never have in common.
func differing() []string {
	return []string{
		// When something happened, and for how long.
		`\.(creationTimestamp|lastTransitionTime|lastUpdateTime|managedFields\.\d+\.time)$`,
		`\.(created|started|cutStarted|cutEnded|Created)At$`, `^report\.(started|finished)$`, `\.(start|cutStart|share)$`, `[.a-z]([sS]econds)$`,
		// PD's clock, and what was written in the cluster meanwhile: TiDB writes now and then.
		`^manifest\.(backupTS|maxTS)$`, `\.r_u\.state\.`,
		// What the other side makes up.
		`\.(uid|resourceVersion|generation|clusterID)$`, `/cluster-id$`, `/restarted-pods$`, `\.clientURL$`,
		`^manifest\.source\.(pd\.\d+|stores\.[^.]+\.address)$`,
		// Which other runs there were before: the model's expectation is learnt from them.
		`^report\.expected\.`,
		// What a run that was resumed says of its attempts. A step that was undone is in the list again.
		`^report\.(processes\.|wallSeconds$|hold\.attempts$)`, `^report\.phases\..*\.steps\.length$`,
		// What only the process knows that did it: the parts of a step and those on each store of a restore, which regions it
		// took back itself, what was written to since the backup before, and the marks that it read and had not stored yet: a
		// backup is as good without them, and its restore takes back every region.
		`^report\.phases\..*\.parts\.`, `^report\.(stores|regions|changed)\.`, `^manifest\.marks\.`,
	}
}

// differs reports whether a path is one of those.
func differs(path string) bool { return differingRegexp().MatchString(path) }

//nolint:gochecknoglobals // compiled once
var differingRegexp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.Join(differing(), "|")) })

// names replaces what is called differently in each scene and testbed: the backup, the target, volumes and snapshots.
func (s *scene) names() *strings.Replacer {
	words := []string{s.newer(), "NEWER", s.target.Name, "TARGET", s.name, "BACKUP"}
	claims := map[string]string{}
	for _, pv := range s.bed.Kube.List("persistentvolumes", "") {
		handle, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "volumeHandle")
		claim, _, _ := unstructured.NestedString(pv.Object, "spec", "claimRef", "name")
		if handle != "" && claim != "" {
			claims[handle] = strings.ReplaceAll(claim, s.target.Name, "TARGET")
			words = append(words, pv.GetName(), "PV of "+claims[handle], handle, "VOLUME of "+claims[handle])
		}
	}
	for _, snap := range s.bed.EC2.Snapshots() {
		words = append(words, string(snap.ID), "SNAPSHOT of "+claims[string(snap.Volume)])
	}
	return strings.NewReplacer(words...)
}

// runIDs are those that the program makes up.
func runIDs() *regexp.Regexp { return regexp.MustCompile(`\b\d{8}t\d{6}-[0-9a-f]{8}\b`) }

// storeIDs are the paths of ids of stores. PD gives them out in the order in which the stores come.
func storeIDs() *regexp.Regexp {
	return regexp.MustCompile(`([./]store|store-id|^manifest\.source\.stores\.[^.]+\.id)$`)
}

// pods are the source's, by the ids of their stores; a restored store keeps its id and its ordinal.
func (s *scene) pods() map[string]string {
	out := map[string]string{}
	for _, pod := range s.bed.Kube.List("pods", source.Namespace) {
		if id := pod.GetLabels()["tidb.pingcap.com/store-id"]; id != "" && pod.GetLabels()["app.kubernetes.io/instance"] == source.Name {
			out[id] = fmt.Sprint("store of ", pod.GetName())
		}
	}
	return out
}
