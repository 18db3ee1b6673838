package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// SealKind is the kind of a seal document.
const SealKind = "Seal"

// SealRecord certifies that all snapshots of a manifest exist and are completed. It binds the manifest's exact bytes,
// and repeats what a list of backups shows, so that listing needs no manifest.
type SealRecord struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	ID         cluster.BackupID `json:"id"`
	SHA256     string           `json:"sha256"` // of the manifest's bytes, hexadecimal
	Size       int64            `json:"size"`   // of the manifest, bytes
	SealedAt   time.Time        `json:"sealedAt"`

	Run     cluster.RunID `json:"run"`
	Cluster cluster.Name  `json:"cluster"`
	// ClusterID is PD's: two clusters of one name are two clusters. 0 in seals of older versions; the manifest has it.
	ClusterID uint64 `json:"clusterID,string,omitempty"`
	Version   string `json:"version"`
	// Operator is the generation of TiDB Operator that made the cluster: Operator2, or "" for 1.x.
	Operator  string     `json:"operator,omitempty"`
	BackupTS  cluster.TS `json:"backupTS"`
	CreatedAt time.Time  `json:"createdAt"`
	Stores    int        `json:"stores"`
	Snapshots int        `json:"snapshots"`
	SizeGiB   int64      `json:"sizeGiB"`
	// DataBytes is the data in all snapshots as EC2 reports it; 0 where it does not.
	DataBytes int64    `json:"dataBytes,omitempty"`
	Tags      []string `json:"tags,omitempty"`
	// CoveredBy names the source's log backups that cover the backup ts, as LogBackup.Covers has it.
	CoveredBy []string `json:"coveredBy,omitempty"`
	// Signature is the text of a signature as minisign writes it, over the manifest's bytes and this record; see Sign.
	// Empty if the run had no key.
	Signature string `json:"signature,omitempty"`
}

// Seal makes the seal of a manifest's bytes. The bytes must be those that are stored: read them back, do
// not encode again. A manifest that Decode refuses, or a zero time, is not sealed.
func Seal(doc []byte, sealedAt time.Time, dataBytes int64) ([]byte, error) {
	m, err := Decode(doc)
	if err != nil {
		return nil, failure.Annotate(err, "seal backup", "")
	}
	if sealedAt.IsZero() {
		return nil, failure.New(failure.Usage, "seal backup", string(m.ID), "no time given")
	}
	return encodeDocument(&SealRecord{
		APIVersion: APIVersion, Kind: SealKind, ID: m.ID, SHA256: digest(doc), Size: int64(len(doc)),
		SealedAt: sealedAt.UTC(), Run: m.Run, Cluster: m.Source.Cluster, ClusterID: m.Source.ClusterID,
		Version: m.Source.Version, Operator: m.Kubernetes.Operator(),
		BackupTS: m.BackupTS, CreatedAt: m.CreatedAt, Stores: len(m.Source.Stores),
		Snapshots: len(m.Snapshots), SizeGiB: m.SizeGiB(), DataBytes: dataBytes, Tags: m.Tags,
		CoveredBy: m.CoveredBy(),
	}, "seal backup", string(m.ID))
}

// DecodeSeal reads a seal. A schema of a newer tisnap is Usage, anything else that is no seal is Corrupt.
func DecodeSeal(doc []byte) (*SealRecord, error) {
	if err := checkSchema(doc, SealKind, "decode seal"); err != nil {
		return nil, err
	}
	s := new(SealRecord)
	if err := json.Unmarshal(doc, s); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "decode seal", "")
	}
	if raw, err := hex.DecodeString(s.SHA256); err != nil || len(raw) != sha256.Size {
		return nil, failure.New(failure.Corrupt, "decode seal", string(s.ID), "no SHA-256 digest in it")
	}
	return s, nil
}

// Open reads the manifest of a finished backup. It refuses, in this order: a seal that is missing (empty
// seal bytes: Unready), a tombstone in its place (NotFound), not readable, or of a newer schema (Usage); a
// manifest whose size or digest is not the sealed one (Corrupt, with both); and what Decode refuses.
func Open(doc, seal []byte) (*Manifest, error) {
	if len(seal) == 0 {
		return nil, failure.New(failure.Unready, "open backup", "", "it is not sealed: its run did not finish").
			WithHint("choose a sealed backup from `tisnap list`")
	}
	if t := DecodeTombstone(seal); t != nil {
		return nil, buried(t)
	}
	s, err := DecodeSeal(seal)
	if err != nil {
		return nil, failure.Annotate(err, "open backup", "")
	}
	if size := int64(len(doc)); size != s.Size {
		return nil, corrupt(s, "manifest has %d bytes, sealed were %d", size, s.Size)
	}
	if d := digest(doc); d != s.SHA256 {
		return nil, corrupt(s, "manifest has SHA-256 %s, sealed was %s", d, s.SHA256)
	}
	m, err := Decode(doc)
	if err != nil {
		return nil, failure.Annotate(err, "open backup", string(s.ID))
	}
	if m.ID != s.ID || m.BackupTS != s.BackupTS || len(m.Snapshots) != s.Snapshots {
		return nil, corrupt(s, "seal is of backup %s at %s with %d snapshots, manifest of %s at %s with %d",
			s.ID, s.BackupTS, s.Snapshots, m.ID, m.BackupTS, len(m.Snapshots))
	}
	m.SealedAt = s.SealedAt
	return m, nil
}

func corrupt(s *SealRecord, format string, args ...any) error {
	return failure.New(failure.Corrupt, "open backup", string(s.ID), format, args...).
		WithHint("restore another backup; the snapshots of this one are still tagged with its id")
}

func digest(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}
