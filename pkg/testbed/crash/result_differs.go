package crash

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/ebs"
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
		`^kubernetes\.(clusters|pds)/[^.]+\.status\.(id|pd)$`,
		`^manifest\.source\.(pd\.\d+|stores\.[^.]+\.address)$`,
		// A store that is started again may find its port taken by another process of this machine, and exit again.
		`\.containerStatuses\.[^.]+\.restartCount$`,
		// Which other runs there were before: the model's expectation is learnt from them.
		`^report\.expected\.`,
		// Which process of the run asked for a volume, or took it over.
		`\.Tags\.tisnap\.io/epoch$`,
		// For which claim a disk was made, which is another one's by then.
		`/exchanged(-claim)?$`, `\.Tags\.(CSIVolumeName|kubernetes\.io/created-for/pvc?/name)$`,
		// What a resumed run reports about its attempts. A step that was undone is in the list again.
		`^report\.(processes\.|wallSeconds$|hold\.attempts$)`, `^report\.phases\..*\.steps\.length$`, `\.parts\.length$`,
		// Regions that TiDB wrote to meanwhile, or that a process recovered before it died, are flashed back; others are not.
		`^report\.stores\.[^.]+\.parts\.(prepare|flashback)\.`,
		// Zero is left out.
		`^report\.changed\.dataBytes$`,
	}
}

// differs reports whether a path is one of those.
func differs(path string) bool { return differingRegexp().MatchString(path) }

// Compiled once.
var differingRegexp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.Join(differing(), "|")) })

// counted are paths of what has to be there, though how much it is depends on what TiDB wrote meanwhile, or on what a
// process did before it died: logs that it has recovered are longer than their marks.
func counted() *regexp.Regexp {
	return regexp.MustCompile(`^(manifest\.marks\.(ts|size|sha256|regions)|report\.changed\.regions|report\.regions\.(unchanged|flashed))$`)
}

// ofStep is the path of a step's part.
func ofStep() *regexp.Regexp {
	return regexp.MustCompile(`^(report\.phases\..*\.steps\.[^.]+)\.parts\.`)
}

// ofStore is the path of a store's part.
func ofStore() *regexp.Regexp { return regexp.MustCompile(`^report\.stores\.[^.]+\.parts\.([^.]+)\.`) }

// stepOf is the step that takes the time of a store's part.
func stepOf() map[string]string {
	return map[string]string{
		"volume": "await-volumes", "pod": "await-stores", "TiKV": "await-stores", "collect": "collect",
		"recover": "recover", "prepare": "prepare", "flashback": "flashback",
	}
}

// names replaces what is called differently in each scene and testbed: the storage, the backup, the target, volumes and
// snapshots.
func (s *scene) names(storageID string) *strings.Replacer {
	ends := s.randomEnds()
	words := append([]string{storageID, "STORAGE", s.newer(), "NEWER", s.target.Name, "TARGET", s.name, "BACKUP"}, ends...)
	named := strings.NewReplacer(append([]string{s.target.Name, "TARGET"}, ends...)...)
	claims := map[string]string{}
	for _, pv := range s.bed.Kube.List("persistentvolumes", "") {
		handle, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "volumeHandle")
		claim, _, _ := unstructured.NestedString(pv.Object, "spec", "claimRef", "name")
		if handle != "" && claim != "" {
			claims[handle] = named.Replace(claim)
			words = append(words, pv.GetName(), "PV of "+claims[handle], handle, "VOLUME of "+claims[handle])
		}
	}
	for _, snap := range s.bed.EC2.Snapshots() {
		words = append(words, string(snap.ID), "SNAPSHOT of "+claims[string(snap.Volume)])
	}
	for _, id := range s.bed.Volumes(s.target) { // whose snapshot may have been an archive's, and is deleted
		if v, ok := s.bed.EC2.Volume(id); ok && v.Tags[ebs.TagSnapshot] != "" {
			words = append(words, v.Tags[ebs.TagSnapshot], "SNAPSHOT")
		}
	}
	return strings.NewReplacer(words...)
}

// randomEnds replaces the random ends of the names of instances of TiDB Operator 2.x by their places among those of their
// kind. A restored store has the end of its source.
func (s *scene) randomEnds() []string {
	var words []string
	for _, of := range []struct{ resource, cluster string }{
		{"tikvs", source.Name}, {"pds", s.target.Name}, {"tidbs", s.target.Name},
	} {
		n := 0
		for _, o := range s.bed.Kube.List(of.resource, source.Namespace) { // by name
			if isOf(o, of.cluster) {
				name := o.GetName()
				words = append(words, name[strings.LastIndex(name, "-"):], fmt.Sprintf("-%s%d", strings.ToUpper(of.resource), n))
				n++
			}
		}
	}
	return words
}

// runIDs are those that the program makes up.
func runIDs() *regexp.Regexp { return regexp.MustCompile(`\b\d{8}t\d{6}-[0-9a-f]{8}\b`) }

// storeIDs are the paths of ids of stores. PD gives them out in the order in which the stores come.
func storeIDs() *regexp.Regexp {
	return regexp.MustCompile(`([./]store|store-id|^manifest\.source\.stores\.[^.]+\.id|^kubernetes\.tikvs/[^.]+\.status\.id)$`)
}

// storeElement is the path of what is in a list's element of a store.
func storeElement() *regexp.Regexp {
	return regexp.MustCompile(`^(.*\.)` + elementOfStore + `(\d+)(\..*)?$`)
}

// pods are the source's, by the ids of their stores; a restored store keeps its id and its ordinal.
func (s *scene) pods() map[string]string {
	out, named := map[string]string{}, strings.NewReplacer(s.randomEnds()...)
	for _, pod := range s.bed.Kube.List("pods", source.Namespace) {
		if id := pod.GetLabels()["tidb.pingcap.com/store-id"]; id != "" && pod.GetLabels()["app.kubernetes.io/instance"] == source.Name {
			out[id] = "store of " + named.Replace(pod.GetName())
		}
	}
	return out
}
