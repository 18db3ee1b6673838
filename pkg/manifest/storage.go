package manifest

import (
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// StorageKind is the kind of the document that identifies the storage of a prefix.
const StorageKind = "Storage"

// Keys of the storage itself, at the root of its prefix.
const (
	StorageKey = "storage.json"
	// probes/<random>: what a preflight wrote to see that conditional writes refuse; deleted at once
	ProbesPrefix = "probes/"
)

// Storage is which storage a prefix is. A copy of the prefix has the same document: so it names where it was made for.
type Storage struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	ID         string    `json:"id"`       // random; snapshots and volumes carry it as a tag
	Location   string    `json:"location"` // bucket and prefix, or folder
	CreatedAt  time.Time `json:"createdAt"`
	// CopyOf is the id of the storage of which this one is a copy with an identity of its own.
	CopyOf string `json:"copyOf,omitempty"`
	// Proven are the servers whose conditional writes were seen to refuse, each with the version of tisnap that saw it.
	Proven []ProvenServer `json:"conditionalWrites,omitempty"`
}

// ProvenServer is a server whose conditional writes were seen to refuse.
type ProvenServer struct {
	Server string    `json:"server"`
	Tool   string    `json:"tool"`
	At     time.Time `json:"at"`
}

// Encode returns the bytes to store.
func (s *Storage) Encode() ([]byte, error) {
	s.APIVersion, s.Kind = APIVersion, StorageKind
	return encodeDocument(s, "write identity of the storage", s.ID)
}

// DecodeStorage reads which storage it is. A schema of a newer tisnap is Usage, anything else that is none is Corrupt.
func DecodeStorage(doc []byte) (*Storage, error) {
	const op = "read identity of the storage"
	if err := checkSchema(doc, StorageKind, op); err != nil {
		return nil, err
	}
	s := new(Storage)
	if err := json.Unmarshal(doc, s); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, op, "")
	}
	if s.ID == "" || s.Location == "" {
		return nil, failure.New(failure.Corrupt, op, "", "it has no id or no location")
	}
	return s, nil
}
