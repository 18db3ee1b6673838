package manifest

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Marks describes the backup's marks, which are in a separate object: their digest is in the manifest, and the
// manifest's is in the seal.
type Marks struct {
	SHA256  string `json:"sha256"` // of the object's bytes, hexadecimal
	Size    int64  `json:"size"`   // of the object, bytes
	Regions int    `json:"regions"`
	// Of is how many regions the cluster had then, those without a mark too; 0 in a backup of an older tisnap.
	Of int `json:"of,omitempty"`
	// TS was taken from PD after the last mark was read.
	TS cluster.TS `json:"ts"`
}

// NewMarks describes the object with these bytes.
func NewMarks(body []byte, regions int, ts cluster.TS) *Marks {
	return &Marks{SHA256: digest(body), Size: int64(len(body)), Regions: regions, TS: ts}
}

// Share is how many of the cluster's regions have a mark, 0 to 1; 1 where their number is unknown, and 0 of nil.
func (m *Marks) Share() float64 {
	switch {
	case m == nil || m.Regions <= 0:
		return 0
	case m.Of <= 0:
		return 1
	}
	return min(float64(m.Regions)/float64(m.Of), 1)
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
