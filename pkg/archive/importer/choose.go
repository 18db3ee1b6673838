package importer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// begunRecord is the name of the record of what was begun.
const begunRecord = "import"

// begun is what was begun: the same request continues it.
type begun struct {
	Name    string   `json:"name"`
	Sources []Source `json:"sources"`
	Asked   string   `json:"asked,omitempty"` // Options.Base
	Skip    bool     `json:"skipFree,omitempty"`
	Base    string   `json:"base,omitempty"` // that was chosen
}

func (r *run) request() begun {
	return begun{Name: r.opts.Name, Sources: r.opts.Sources, Asked: r.opts.Base, Skip: r.opts.SkipFree}
}

func (b *begun) is(o begun) bool {
	return b.Name == o.Name && b.Asked == o.Asked && b.Skip == o.Skip && slices.Equal(b.Sources, o.Sources)
}

// choose continues the import that an earlier process began, or begins one: with its id, its lease, and its base, which
// is looked for under the lease. It may be tried again.
func (r *run) choose(ctx context.Context, s *phase.Scope) error {
	if r.lease == nil {
		if err := r.resume(ctx, s); err != nil {
			return err
		}
	}
	if r.lease == nil {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	if err := r.findBases(ctx, s); err != nil || r.result.Continued {
		return err
	}
	now := r.request()
	now.Base = r.result.Base
	err := r.shared.Record(ctx, begunRecord, now)
	if failure.Is(err, failure.Conflict) { // by an earlier try
		err = nil
	}
	return err
}

// idBytes make the ids of a name differ.
const idBytes = 4

// isOf reports whether an archive may be an import of the name.
func isOf(archive, name string) bool {
	random, is := strings.CutPrefix(archive, name+"-")
	_, err := hex.DecodeString(random)
	return is && err == nil && len(random) == 2*idBytes
}

// begin takes the lease of a new archive.
func (r *run) begin(ctx context.Context) error {
	var random [idBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	id := r.opts.Name + "-" + hex.EncodeToString(random[:])
	objects := r.Repository.Objects()
	if err := lease.OneWriter(ctx, objects, r.Repository.Settings(), id); err != nil {
		return err
	}
	l, err := lease.Write(ctx, objects, id, "import "+string(r.opts.Run))
	if err != nil {
		return err
	}
	r.lease, r.shared, r.result.Archive = l, units.Of(r.Repository, id), id
	return nil
}

// resume continues the unfinished import of the same request, if there is one. The lock keeps others from it.
func (r *run) resume(ctx context.Context, s *phase.Scope) error {
	all, err := lease.All(ctx, r.Repository.Objects())
	for i := range all {
		if err == nil && r.lease == nil && isOf(all[i].Archive, r.opts.Name) {
			err = r.resumeOne(ctx, s, &all[i])
		}
	}
	return err
}

func (r *run) resumeOne(ctx context.Context, s *phase.Scope, other *lease.Other) error {
	objects, id := r.Repository.Objects(), other.Archive
	shared := units.Of(r.Repository, id)
	var was begun
	err := shared.Recorded(ctx, begunRecord, &was)
	if gone(err) { // it is of another run, or of an import that died before it had stored anything
		return nil
	}
	if err != nil {
		return err
	}
	decided, err := other.Decided(ctx, objects)
	switch {
	case err != nil:
		return err
	case decided: // and its process died before it could end its making
		s.Note("import %s is committed, or was broken, and is not continued", id)
		return r.end(ctx, id)
	case !was.is(r.request()):
		s.Note("import %s of other sources, or with other options, is unfinished: prunes end it", id)
		return nil
	}
	l, err := lease.Resume(ctx, objects, id)
	if failure.Is(err, failure.Conflict) {
		s.Note("import %s cannot be continued: a prune broke its lease", id)
		return nil
	}
	if err != nil {
		return err
	}
	if r.earlier, err = readEarlier(ctx, shared); err != nil {
		return err
	}
	s.Note("continuing import %s", id)
	r.lease, r.shared, r.base = l, shared, cmp.Or(was.Base, NoBase)
	r.result.Archive, r.result.Continued = id, true
	return nil
}

// gone reports whether an object is not there.
func gone(err error) bool { return failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" }

// findBases finds what each volume is compared with.
func (r *run) findBases(ctx context.Context, s *phase.Scope) error {
	condemned, err := lease.ReadCondemned(ctx, r.Repository.Objects()) // under the lease
	if err != nil {
		return err
	}
	id, a, err := r.findBase(ctx, s)
	if err != nil || a == nil {
		return err
	}
	r.result.Base = id
	for i := range r.works {
		w := &r.works[i]
		w.base = format.Volume{}
		v := find(a, w.Source)
		if v == nil {
			continue
		}
		allowed, err := condemned.Allows(ctx, r.Repository, v.Segments)
		if err != nil {
			return failure.Annotate(err, "read base", id)
		}
		if !allowed {
			s.Note("%s: a prune is deleting what base %s has: all blocks are stored", w.Source, id)
			continue
		}
		w.base = *v
	}
	return nil
}

// find returns an archive's volume; nil if it has none of this name.
func find(a *format.Archive, from Source) *format.Volume {
	for _, store := range a.Stores {
		for i := range store.Volumes {
			if cluster.StoreID(store.ID) == from.Store && cluster.Role(store.Volumes[i].Role) == from.Role {
				return &store.Volumes[i]
			}
		}
	}
	return nil
}

// findBase returns the archive to compare with; nil for none.
func (r *run) findBase(ctx context.Context, s *phase.Scope) (id string, a *format.Archive, err error) {
	switch r.base {
	case NoBase:
		return "", nil, nil
	case "":
		if id, err = r.newest(ctx, s); err != nil || id == "" {
			return "", nil, err
		}
	default:
		id = r.base
	}
	a, err = r.Repository.Archive(ctx, id)
	if failure.Is(err, failure.NotFound) && id != r.opts.Base {
		s.Note("the base %s was forgotten: storing all blocks", id)
		return "", nil, nil
	}
	return id, a, err
}

// newest returns the id of the newest import of the name; "" if there is none. One that cannot be read is none.
func (r *run) newest(ctx context.Context, s *phase.Scope) (id string, err error) {
	entries, err := r.Repository.List(ctx)
	for _, e := range entries { // oldest first
		switch {
		case e.Err != nil && isOf(e.ID, r.opts.Name):
			s.Warn("archive %s is no base: %v", e.ID, e.Err)
		case e.Err == nil && e.Archive.Imported() && e.Archive.Backup == r.opts.Name:
			id = e.ID
		}
	}
	return id, err
}
