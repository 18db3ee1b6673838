package format

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
)

// maxArchive bounds an archive's JSON: a segment's name takes 70 bytes, so that of 32 PiB fit.
const maxArchive = 64 << 20

// Tombstone is the content of an archive's object if there is no archive of its id, and never will be one: it was
// forgotten, or its writer was stopped before it had committed. No archive is so short.
const Tombstone = "tisnap: no archive"

// Archive is one backup, or import, in a repository: the content of its object.
type Archive struct {
	Backup   string    `json:"backup"` // the backup's name, or the one that was given to an import
	BackupTS uint64    `json:"backupTS,string"`
	Cluster  string    `json:"cluster,omitempty"`
	Created  time.Time `json:"created"`
	Base     string    `json:"base,omitempty"` // the archive that it was compared with; it does not need it
	Manifest Manifest  `json:"manifest"`
	Stores   []Store   `json:"stores,omitempty"`
}

// Manifest is the backup's manifest, byte by byte; without one, its digest is that of no bytes.
type Manifest struct {
	SHA256 Digest `json:"sha256"`
	Data   []byte `json:"data,omitempty"`
}

// NewManifest returns the manifest with these bytes.
func NewManifest(data []byte) Manifest { return Manifest{SHA256: sha256.Sum256(data), Data: data} }

// Imported reports whether it is of plain volumes: it has nothing of a backup or a cluster.
func (a *Archive) Imported() bool {
	return a.Manifest.SHA256 == NewManifest(nil).SHA256 && a.Cluster == "" && a.BackupTS == 0
}

// Store is a store of TiKV, with its volumes.
type Store struct {
	ID      uint64   `json:"id,string"`
	Volumes []Volume `json:"volumes,omitempty"`
}

// Volume is one volume at the time of the backup.
type Volume struct {
	Role     string        `json:"role"`
	Source   string        `json:"source,omitempty"`   // the snapshot, device or file
	Size     int64         `json:"size,string"`        // bytes; the last block has what remains
	Segments []SegmentName `json:"segments,omitempty"` // its map, SegmentBlocks blocks each
	Counts   Counts        `json:"counts"`
	Checksum Digest        `json:"checksum"` // linear, over the saved blocks
	// Proofs are those of the segments: see Segment.Proof. It may have none.
	Proofs []Digest `json:"proofs,omitempty"`
}

// Counts are blocks of a volume by state. The rest is absent.
type Counts struct {
	Saved int64 `json:"saved"`
	Zero  int64 `json:"zero"`
	Free  int64 `json:"free"`
}

// Plus are the counts with those of a segment.
func (c Counts) Plus(s Segment) Counts {
	for i := range s {
		switch s[i].State {
		case Saved:
			c.Saved++
		case Zero:
			c.Zero++
		case Free:
			c.Free++
		case Absent:
		}
	}
	return c
}

// Blocks is how many blocks a volume of this size has.
func Blocks(size int64) int64 { return (size + codec.MaxBlock - 1) / codec.MaxBlock }

// check makes sure that the parts agree with each other.
func (a *Archive) check() error {
	if sha256.Sum256(a.Manifest.Data) != a.Manifest.SHA256 {
		return failure.New(failure.Corrupt, "", "", "its manifest does not have the digest %s", a.Manifest.SHA256)
	}
	for _, s := range a.Stores {
		for _, v := range s.Volumes {
			blocks := Blocks(v.Size)
			if want := (blocks + SegmentBlocks - 1) / SegmentBlocks; v.Size < 0 || int64(len(v.Segments)) != want {
				return failure.New(failure.Corrupt, "", "", "volume %s of store %d has %d segments for %d bytes",
					v.Role, s.ID, len(v.Segments), v.Size)
			}
			if n := len(v.Proofs); n > 0 && n != len(v.Segments) {
				return failure.New(failure.Corrupt, "", "", "volume %s of store %d has %d proofs of %d segments",
					v.Role, s.ID, n, len(v.Segments))
			}
			if c := v.Counts; min(c.Saved, c.Zero, c.Free) < 0 || max(c.Saved, c.Zero, c.Free) > blocks ||
				c.Saved+c.Zero+c.Free > blocks {
				return failure.New(failure.Corrupt, "", "", "volume %s of store %d has %d blocks, not %+v",
					v.Role, s.ID, blocks, c)
			}
		}
	}
	return nil
}

// Seal returns the object of the archive with this id.
func (a *Archive) Seal(keys *Keyring, id string) ([]byte, error) {
	salt := make([]byte, sivSize)
	random(salt)
	object, err := a.seal(keys, id, salt)
	return object, failure.Annotate(err, "seal archive", id)
}

// seal must never get a salt twice: the object's key depends on it.
func (a *Archive) seal(keys *Keyring, id string, salt []byte) ([]byte, error) {
	path, err := ArchivePath(id)
	if err != nil {
		return nil, err
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "", "")
	}
	if len(text) > maxArchive {
		return nil, failure.New(failure.Usage, "", "", "it has %d bytes, at most %d are allowed", len(text), maxArchive)
	}
	packed, err := inZstd(text)
	if err != nil {
		return nil, err
	}
	return keys.sealObject(kindArchive, path, "archive", []byte(path), salt, packed)
}

// OpenArchive returns the archive with this id from its object.
func OpenArchive(keys *Keyring, id string, object []byte) (*Archive, error) {
	a, err := openArchive(keys, id, object)
	return a, failure.Annotate(err, "open archive", id)
}

func openArchive(keys *Keyring, id string, object []byte) (*Archive, error) {
	path, err := ArchivePath(id)
	if err != nil {
		return nil, err
	}
	packed, _, err := openObject(keys, kindArchive, object, path, "archive", []byte(path))
	if err != nil {
		return nil, err
	}
	text, err := unzstd(packed, maxArchive)
	if err != nil {
		return nil, err
	}
	return decodeArchive(text)
}

func decodeArchive(text []byte) (*Archive, error) {
	a := &Archive{}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "", "")
	}
	return a, a.check()
}
