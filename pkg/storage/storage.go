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

// Storage is one storage as it was found.
type Storage struct {
	manifest.Storage

	Here    string // where it was found
	version objstore.Version
	news    []manifest.ProvenServer // that were not written down yet
}

// Read says which storage it is, and changes nothing. One that no command of this version has written to has no ID yet.
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

// Find is Read for a command that is going to change something: a storage without an identity gets a random one, which
// is not written down before Establish.
func Find(ctx context.Context, store objstore.Store) (*Storage, error) {
	s, err := Read(ctx, store)
	if err == nil && s.ID == "" {
		s.Storage = manifest.Storage{ID: strings.ToLower(rand.Text()), Location: s.Here, CreatedAt: time.Now().UTC()}
	}
	return s, err
}

// Open finds a storage, proves what its server does, and writes both down.
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

// ProveServer proves that the server refuses writes whose condition does not hold, unless this version of the tool has
// seen that before: it is for right before a lock is taken.
func (s *Storage) ProveServer(ctx context.Context, store objstore.Store, tool string) error {
	server := objstore.Server(store)
	if s.proven(server, tool) {
		return nil
	}
	if err := Prove(ctx, store); err != nil {
		return err
	}
	s.news = append(s.news, manifest.ProvenServer{Server: server, Tool: tool, At: time.Now().UTC()})
	return nil
}

// Establish writes down what is new of the storage: its identity, and what was proven. It is for a command that nothing
// keeps from its work any more, so that one that is refused leaves no trace. If another command gave the storage an
// identity meanwhile, that one is taken: ID is the storage's from then on, and nothing may be written or tagged with
// the one of before. id is the one that the command's journal has, if it has one: then another identity is a Conflict.
func (s *Storage) Establish(ctx context.Context, store objstore.Store, id string) error {
	if s.version != "" {
		return s.note(ctx, store)
	}
	s.ID, s.Proven, s.news = cmp.Or(id, s.ID), s.news, nil
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
		stored.news = s.Proven
		*s = *stored
		return s.note(ctx, store)
	case readErr == nil && failure.Is(err, failure.Conflict):
		return failure.New(failure.Conflict, "give the storage an identity", store.URL(),
			"another command did it at the same moment").
			WithHint("run the same command again")
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

// maxProven bounds what is noted: the oldest goes.
const maxProven = 8

// note keeps what was proven, so that the next command need not do it. A copy is not written to, and that another
// command was faster does not matter.
func (s *Storage) note(ctx context.Context, store objstore.Store) error {
	if s.IsCopy() || len(s.news) == 0 {
		return nil
	}
	s.Proven, s.news = append(s.Proven, s.news...), nil
	s.Proven = s.Proven[max(0, len(s.Proven)-maxProven):]
	err := s.replace(ctx, store)
	if failure.Is(err, failure.Conflict) {
		return nil
	}
	return failure.Annotate(err, "note what was proven", store.URL())
}

func (s *Storage) proven(server, tool string) bool {
	for _, p := range s.Proven {
		if p.Server == server && p.Tool == tool {
			return true
		}
	}
	return false
}

// IsCopy reports whether the storage was made for another place than where it was found.
func (s *Storage) IsCopy() bool { return s.ID != "" && s.Location != s.Here }

// RefuseCopy is Unready in a copy.
func (s *Storage) RefuseCopy(op string) error {
	if !s.IsCopy() {
		return nil
	}
	return failure.New(failure.Unready, op, s.Here, "this storage is a copy of %s, whose snapshots and runs it names",
		s.Location).
		WithHint(
			"use --storage %s; or run `tisnap gc --adopt-storage=moved` if that is gone and this one takes its place, "+
				"`--adopt-storage=copied` if both are used from now on", s.Location)
}

// Owns reports whether a snapshot or volume of a run of this storage, with this id in its tag, was made in this
// storage. Older versions left the tag out: what they made is of the storage in which it is known, unless that is a
// copy.
func (s *Storage) Owns(tag string) bool {
	if tag == "" {
		return !s.IsCopy() && s.CopyOf == ""
	}
	return tag == s.ID && !s.IsCopy()
}

// CheckRun is a Conflict if a run whose journal is here, and says that it was begun in the storage with this id at this
// location, is another storage's: its own process may live there. Journals of older versions say neither.
func (s *Storage) CheckRun(run, id, location string) error {
	switch {
	case s.IsCopy() && location != s.Here:
		return failure.New(failure.Conflict, "check run", run,
			"it was begun in %s, of which this storage, %s, is a copy", s.Location, s.Here).
			WithHint("continue or undo it with --storage %s", s.Location)
	case id == "" && s.CopyOf == "", id == s.ID, location == s.Here:
		return nil
	}
	return failure.New(failure.Conflict, "check run", run,
		"it was begun in another storage, of which this one was a copy: %s", cmp.Or(location, s.CopyOf)).
		WithHint("continue or undo it there")
}

// How a copy becomes a storage of its own.
const (
	Moved  = "moved"  // the original is gone, and this one takes its place: what carries its id is this one's
	Copied = "copied" // both are used from now on: this one gets a new id, and deletes nothing that the original made
)

// Adopt makes a copy a storage of its own. One that is none stays as it is.
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
