package manifest

import (
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// TombstoneKind is the kind of a tombstone document.
const TombstoneKind = "Tombstone"

// TombstoneRecord takes the seal's place in a backup that is being removed. It is written before the first
// snapshot goes, so that a backup that is half gone can never be restored, and a run that was thought dead
// can never seal it.
type TombstoneRecord struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	ID         cluster.BackupID `json:"id"`
	Reason     string           `json:"reason"` // for a person: who removes it, and why
	BuriedAt   time.Time        `json:"buriedAt"`
}

// Tombstone makes the document.
func Tombstone(id cluster.BackupID, reason string, at time.Time) ([]byte, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	return encodeDocument(&TombstoneRecord{
		APIVersion: APIVersion, Kind: TombstoneKind, ID: id, Reason: reason, BuriedAt: at.UTC(),
	}, "bury backup", string(id))
}

// DecodeTombstone reads the document that is stored in the seal's place. It is nil for anything that is not
// a tombstone, a real seal and garbage included.
func DecodeTombstone(doc []byte) *TombstoneRecord {
	t := new(TombstoneRecord)
	if json.Unmarshal(doc, t) != nil || t.Kind != TombstoneKind {
		return nil
	}
	return t
}

// buried is the refusal to open a backup that is being removed.
func buried(t *TombstoneRecord) error {
	return failure.New(failure.NotFound, "open backup", string(t.ID), "it is being removed since %s (%s)",
		t.BuriedAt.Format(time.RFC3339), t.Reason).WithHint("choose another backup from `tisnap list`")
}
