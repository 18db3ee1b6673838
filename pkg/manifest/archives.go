package manifest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// ArchivesKind is the kind of the document of what an archive repository has.
const ArchivesKind = "Archives"

// Archives is what an archive repository had of each cluster at a time, for those who have no key to it. It is replaced
// by the commands that change that, and only shown.
type Archives struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Repository string             `json:"repository"` // its id
	At         time.Time          `json:"at"`
	Clusters   []ClustersArchives `json:"clusters"`
	Unreadable int                `json:"unreadable,omitempty"` // archives, of whatever cluster, that cannot be read
}

// ClustersArchives are the archives of a cluster's backups. A block that archives share counts for each.
type ClustersArchives struct {
	Cluster      cluster.Name `json:"cluster"`
	Archives     int          `json:"archives"`
	Blocks       int64        `json:"blocks"`              // saved, of 512 KiB
	UnreadBlocks float64      `json:"unreadBlocks"`        // that no verification has read yet, as is to be expected
	Verified     time.Time    `json:"verifiedAt,omitzero"` // when the last one ended that read any of them
}

// Since adds the clusters that an earlier document had and this one lacks, while archives cannot be read: these may be
// theirs.
func (a Archives) Since(before Archives) Archives {
	a.Clusters = slices.Clone(a.Clusters)
	for _, c := range before.Clusters {
		of := func(has ClustersArchives) bool { return has.Cluster == c.Cluster }
		if a.Unreadable > 0 && !slices.ContainsFunc(a.Clusters, of) {
			a.Clusters = append(a.Clusters, c)
		}
	}
	return a
}

// Encode is the document's JSON. The schema fields are filled in.
func (a Archives) Encode() ([]byte, error) {
	a.APIVersion, a.Kind = APIVersion, ArchivesKind
	return encodeDocument(&a, "record archives", a.Repository)
}

// DecodeArchives reads the document. A schema of a newer tisnap is Usage, anything else that is none is Corrupt.
func DecodeArchives(doc []byte) (Archives, error) {
	var a Archives
	if err := checkSchema(doc, ArchivesKind, "read archives"); err != nil {
		return a, err
	}
	return a, failure.Wrap(json.Unmarshal(doc, &a), failure.Corrupt, "read archives", "")
}
