package manifest

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Marks is what the manifest says of the backup's marks, which are in an object of their own: their digest is in the
// manifest, and the manifest's is in the seal.
type Marks struct {
	SHA256  string `json:"sha256"` // of the object's bytes, hexadecimal
	Size    int64  `json:"size"`   // of the object, bytes
	Regions int    `json:"regions"`
	// TS was taken from PD after the last mark was read.
	TS cluster.TS `json:"ts"`
}

// NewMarks describes the object with these bytes.
func NewMarks(body []byte, regions int, ts cluster.TS) *Marks {
	return &Marks{SHA256: digest(body), Size: int64(len(body)), Regions: regions, TS: ts}
}

// Check is Corrupt unless body is the object that was sealed.
func (m *Marks) Check(body []byte) error {
	if size := int64(len(body)); size != m.Size {
		return failure.New(failure.Corrupt, "check marks", "", "they have %d bytes, sealed were %d", size, m.Size)
	}
	if d := digest(body); d != m.SHA256 {
		return failure.New(failure.Corrupt, "check marks", "", "they have SHA-256 %s, sealed was %s", d, m.SHA256)
	}
	return nil
}
