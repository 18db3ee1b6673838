package manifest

import (
	"encoding/json"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// DeletionsKind is the kind of the document that names the backups that are about to be buried.
const DeletionsKind = "Deletions"

// Deletions names the sealed backups of a cluster that are about to be buried, or were when it was written. It is
// replaced and never deleted.
type Deletions struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Cluster    cluster.Name `json:"cluster"`
	Backups    []Deletion   `json:"backups"`
	// Nonce is random in each write: no content comes a second time, so that no version does, which on S3 is a digest
	// of the content. Without it a writer could replace what is as it was when he read it, and was another in between.
	Nonce string `json:"nonce"`
}

// Deletion is one backup. A name may be taken again when its backup is gone; the run identifies the backup.
type Deletion struct {
	ID  cluster.BackupID `json:"id"`
	Run cluster.RunID    `json:"run"`
}

// With is the list with d in it, once.
func (d Deletions) With(one Deletion, nonce string) Deletions {
	d.Nonce = nonce
	if !slices.Contains(d.Backups, one) {
		d.Backups = append(slices.Clone(d.Backups), one)
	}
	return d
}

// Encode is the document's JSON. The schema fields are filled in.
func (d Deletions) Encode() ([]byte, error) {
	d.APIVersion, d.Kind = APIVersion, DeletionsKind
	return encodeDocument(&d, "announce deletion", d.Cluster.String())
}

// DecodeDeletions reads the document. A schema of a newer tisnap is Usage, anything else that is none is Corrupt.
func DecodeDeletions(doc []byte) (Deletions, error) {
	var d Deletions
	if err := checkSchema(doc, DeletionsKind, "read deletions"); err != nil {
		return d, err
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return d, failure.Wrap(err, failure.Corrupt, "read deletions", "")
	}
	return d, nil
}
