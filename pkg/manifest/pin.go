package manifest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// PinKind is the kind of the document that keeps a backup from being deleted.
const PinKind = "Pin"

// Pin records why a backup is kept, and until when.
type Pin struct {
	Reason   string    `json:"reason"`
	PinnedAt time.Time `json:"pinnedAt"`
	Until    time.Time `json:"until,omitzero"` // zero is until it is unpinned
}

// Holds reports whether the pin keeps its backup at this time.
func (p Pin) Holds(now time.Time) bool { return p.Until.IsZero() || now.Before(p.Until) }

// Outlasts reports whether the pin holds longer than another one.
func (p Pin) Outlasts(other Pin) bool {
	return !other.Until.IsZero() && (p.Until.IsZero() || p.Until.After(other.Until))
}

// String is "pinned until TIME: REASON".
func (p Pin) String() string {
	until := ""
	if !p.Until.IsZero() {
		until = " until " + p.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("pinned%s: %s", until, p.Reason)
}

// PinRecord is the pin of a backup as it is stored.
type PinRecord struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Backup     cluster.BackupID `json:"backup"`
	// Run is the backup's: a later backup of the same name is not pinned. Empty is any.
	Run cluster.RunID `json:"run"`
	Pin
	// Nonce is random in each write, so that no version comes a second time.
	Nonce string `json:"nonce"`
}

// Of reports whether the pin is of the backup that this run made; the empty run is of any.
func (r *PinRecord) Of(run cluster.RunID) bool { return r.Run == "" || run == "" || r.Run == run }

// Encode is the document's JSON. The schema fields are filled in.
func (r PinRecord) Encode() ([]byte, error) {
	r.APIVersion, r.Kind = APIVersion, PinKind
	return encodeDocument(&r, "pin backup", string(r.Backup))
}

// DecodePin reads the document. A schema of a newer tisnap is Usage, anything else that is none is Corrupt.
func DecodePin(doc []byte) (*PinRecord, error) {
	const op = "read pin"
	if err := checkSchema(doc, PinKind, op); err != nil {
		return nil, err
	}
	r := new(PinRecord)
	if err := json.Unmarshal(doc, r); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, op, "")
	}
	return r, nil
}
