package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Storage is a storage as found.
type Storage struct {
	manifest.Storage

	Here    string // its actual location
	version objstore.Version
	unsaved []manifest.ProvenServer // not yet written to the storage
}

// Read identifies the storage without changing it. A storage that no command of this version has written to has no ID.
func Read(ctx context.Context, store objstore.Store) (*Storage, error) {
	s := &Storage{Here: objstore.Location(store)}
	doc, version, err := store.Get(ctx, manifest.StorageKey)
	if failure.Is(err, failure.NotFound) {
		return s, nil
	}
	if err != nil {
		return nil, failure.Annotate(err, "read identity of the storage", store.URL())
	}
	found, err := manifest.DecodeStorage(doc)
	if err != nil {
		return nil, failure.Annotate(err, "read identity of the storage", store.URL())
	}
	s.Storage, s.version = *found, version
	return s, nil
}

// Find is Read for a command that will make changes: a storage without an identity gets a random one, which Establish
// writes.
func Find(ctx context.Context, store objstore.Store) (*Storage, error) {
	s, err := Read(ctx, store)
	if err == nil && s.ID == "" {
		s.Storage = manifest.Storage{ID: strings.ToLower(rand.Text()), Location: s.Here, CreatedAt: time.Now().UTC()}
	}
	return s, err
}

// Open finds a storage, proves its server, and records both.
func Open(ctx context.Context, store objstore.Store, tool string) (*Storage, error) {
	s, err := Find(ctx, store)
	if err != nil {
		return nil, err
	}
	if err := s.ProveServer(ctx, store, tool); err != nil {
		return nil, err
	}
	return s, s.Establish(ctx, store, "")
}

// ProveServer proves that the server rejects writes whose condition fails, unless this version of the tool has already
// done so. Call it right before taking a lock.
func (s *Storage) ProveServer(ctx context.Context, store objstore.Store, tool string) error {
	server := objstore.Server(store)
	if s.proven(server, tool) {
		return nil
	}
	if err := Prove(ctx, store); err != nil {
		return err
	}
	s.unsaved = append(s.unsaved, manifest.ProvenServer{Server: server, Tool: tool, At: time.Now().UTC()})
	return nil
}

// Establish writes a new identity and new proofs to the storage. A command calls it once nothing else can refuse it, so
// that a refused command leaves no trace. If another command has given the storage an identity meanwhile, that one is
// adopted: ID changes, and nothing may be written or tagged with the previous one. id is the identity in the command's
// journal, if any: then another identity is a Conflict.
func (s *Storage) Establish(ctx context.Context, store objstore.Store, id string) error {
	if s.version != "" {
		return s.save(ctx, store)
	}
	s.ID, s.Proven, s.unsaved = cmp.Or(id, s.ID), s.unsaved, nil
	err := s.create(ctx, store)
	if err == nil {
		return nil
	}
	stored, readErr := Read(ctx, store)
	switch {
	case readErr == nil && stored.ID == s.ID: // the answer was lost
		*s = *stored
		return nil
	case readErr == nil && id == "" && stored.ID != "" && failure.Is(err, failure.Conflict):
		stored.unsaved = s.Proven
		*s = *stored
		return s.save(ctx, store)
	case readErr == nil && failure.Is(err, failure.Conflict):
		return failure.New(failure.Conflict, "give the storage an identity", store.URL(),
			"another command did so at the same time").
			WithHint("run the command again")
	}
	return failure.Annotate(err, "give the storage an identity", store.URL())
}

func (s *Storage) create(ctx context.Context, store objstore.Store) error {
	doc, err := s.Encode()
	if err != nil {
		return err
	}
	s.version, err = store.Create(ctx, manifest.StorageKey, doc)
	return err
}

func (s *Storage) replace(ctx context.Context, store objstore.Store) error {
	doc, err := s.Encode()
	if err != nil {
		return err
	}
	s.version, err = store.Replace(ctx, manifest.StorageKey, doc, s.version)
	return err
}

// maxProven bounds the recorded proofs: the oldest is dropped.
const maxProven = 8

// save records what was proven, so that the next command need not prove it. It does not write to a copy, and ignores a
// conflict with another command.
func (s *Storage) save(ctx context.Context, store objstore.Store) error {
	if s.IsCopy() || len(s.unsaved) == 0 {
		return nil
	}
	s.Proven, s.unsaved = append(s.Proven, s.unsaved...), nil
	s.Proven = s.Proven[max(0, len(s.Proven)-maxProven):]
	err := s.replace(ctx, store)
	if failure.Is(err, failure.Conflict) {
		return nil
	}
	return failure.Annotate(err, "record the proof", store.URL())
}

func (s *Storage) proven(server, tool string) bool {
	for _, p := range s.Proven {
		if p.Server == server && p.Tool == tool {
			return true
		}
	}
	return false
}

// IsCopy reports whether the storage's recorded location is not where it was found.
func (s *Storage) IsCopy() bool { return s.ID != "" && s.Location != s.Here }

// RefuseCopy returns Unready for a copy.
func (s *Storage) RefuseCopy(op string) error {
	if !s.IsCopy() {
		return nil
	}
	return failure.New(failure.Unready, op, s.Here, "this storage is a copy of %s and refers to its snapshots and runs",
		s.Location).
		WithHint(
			"use --storage %s; or run `tisnap gc --adopt-storage=moved` if that one is gone and this one replaces "+
				"it, or `--adopt-storage=copied` to use both from now on", s.Location)
}

// Owns reports whether a snapshot or volume of a run in this storage was made in this storage, by the id in its tag.
// Older versions wrote no such tag: their snapshots and volumes belong to the storage that knows them, unless it is a
// copy.
func (s *Storage) Owns(tag string) bool {
	if tag == "" {
		return !s.IsCopy() && s.CopyOf == ""
	}
	return tag == s.ID && !s.IsCopy()
}

// CheckRun returns Conflict if a run in this storage belongs to another one, where its process may be alive. id and
// location are those of the storage in which it began, from its journal; journals of older versions have neither.
func (s *Storage) CheckRun(run, id, location string) error {
	switch {
	case s.IsCopy() && location != s.Here:
		return failure.New(failure.Conflict, "check run", run,
			"it began in %s, of which this storage, %s, is a copy", s.Location, s.Here).
			WithHint("continue or undo it with --storage %s", s.Location)
	case id == "" && s.CopyOf == "", id == s.ID, location == s.Here:
		return nil
	}
	return failure.New(failure.Conflict, "check run", run,
		"it began in another storage, of which this one was a copy: %s", cmp.Or(location, s.CopyOf)).
		WithHint("continue or undo it there")
}

// How a copy becomes a storage of its own.
const (
	Moved  = "moved"  // the original is gone and this one replaces it: everything with its id is now this one's
	Copied = "copied" // both are used from now on: this one gets a new id, and never deletes what the original made
)

// Adopt makes a copy a storage of its own. A storage that is not a copy stays unchanged.
func Adopt(ctx context.Context, store objstore.Store, how string) (*Storage, error) {
	s, err := Read(ctx, store)
	if err != nil || !s.IsCopy() {
		return s, err
	}
	switch how {
	case Moved:
	case Copied:
		s.CopyOf, s.ID = s.ID, strings.ToLower(rand.Text())
	default:
		return nil, failure.New(failure.Usage, "adopt storage", s.Here, "%q: want %s or %s", how, Moved, Copied)
	}
	s.Location, s.Proven = s.Here, nil
	return s, failure.Annotate(s.replace(ctx, store), "adopt storage", s.Here)
}
