package repository

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Verified has how much of which archives was read and found whole, by their ids. It can be lost: then it is as if
// nothing was read.
type Verified map[string]Reading

// Reading is what verifications have read of one archive.
type Reading struct {
	Maps format.Digest `json:"maps"` // of the archive that was read: its blocks may have been moved since
	// Unread is the share of its blocks that none has read: as is to be expected if they read samples.
	Unread float64   `json:"unread"`
	Last   time.Time `json:"last"`
}

// Of is what was read of the archive with these maps: all of it is unread unless known otherwise.
func (v Verified) Of(id string, maps format.Digest) Reading {
	if r, is := v[id]; is && r.Maps == maps {
		return r
	}
	return Reading{Maps: maps, Unread: 1}
}

// Verified reads what verifications have recorded. A record that is damaged, or put there by others, is none.
func (r *Repository) Verified(ctx context.Context) (Verified, error) {
	v, _, err := r.verified(ctx)
	return v, failure.Annotate(err, "read verifications", r.store.URL())
}

func (r *Repository) verified(ctx context.Context) (Verified, objstore.Version, error) {
	object, version, err := objstore.ToReplace(ctx, r.store, format.VerifiedPath)
	v := Verified{}
	if err == nil && r.keys.OpenUnit(format.VerifiedPath, object, &v) != nil {
		v = Verified{}
	}
	return v, version, err
}

// verifiedTries is how often a record is written again because another verification came first.
const verifiedTries = 5

// RecordVerified records a verification at a time that read a share of the blocks of archives, at random. whole are
// those that it found to be without damage, with the digests of their maps; all others that it was to read are unread
// from then on.
func (r *Repository) RecordVerified(
	ctx context.Context, ids []string, whole map[string]format.Digest, share float64, at time.Time,
) error {
	const op = "record verification"
	for try := 1; ; try++ {
		v, version, err := r.verified(ctx)
		if err != nil {
			return failure.Annotate(err, op, r.store.URL())
		}
		there, err := r.Versions(ctx) // only now: all that the record has was committed before
		if err != nil {
			return failure.Annotate(err, op, r.store.URL())
		}
		for id := range v {
			if _, is := there[id]; !is {
				delete(v, id)
			}
		}
		for _, id := range ids {
			maps, is := whole[id]
			if !is {
				delete(v, id)
				continue
			}
			v[id] = Reading{Maps: maps, Unread: v.Of(id, maps).Unread * (1 - share), Last: at.UTC()}
		}
		object, err := r.keys.SealUnit(format.VerifiedPath, v)
		if err != nil {
			return failure.Annotate(err, op, r.store.URL())
		}
		err = objstore.WriteOver(ctx, r.store, format.VerifiedPath, object, version)
		if !failure.Is(err, failure.Conflict) || try == verifiedTries {
			return failure.Annotate(err, op, r.store.URL())
		}
	}
}
