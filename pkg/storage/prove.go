package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// removeWithin bounds the removal of a proof's object.
const removeWithin = 10 * time.Second

// Conditions are the conditional writes that a server honours.
type Conditions struct {
	Create  bool // If-None-Match
	Replace bool // If-Match
}

// Prove checks that the server refuses to create an object again and to replace an old version of it. Otherwise two
// runs could work on one cluster at the same time unnoticed: Unready, naming what is missing.
func Prove(ctx context.Context, store objstore.Store) error {
	switch honours, err := Probe(ctx, store); {
	case err != nil:
		return err
	case !honours.Create:
		return ignored(store, "If-None-Match", "it created an object that exists")
	case !honours.Replace:
		return ignored(store, "If-Match", "it replaced an object of another version")
	}
	return nil
}

// Probe finds out, by writing a test object, which conditional writes the server honours. It deletes the object.
func Probe(ctx context.Context, store objstore.Store) (honours Conditions, err error) {
	key := manifest.ProbesPrefix + strings.ToLower(rand.Text())
	first, err := store.Create(ctx, key, []byte("1 "+key))
	if err != nil {
		return honours, failure.Annotate(err, "prove conditional writes", store.URL())
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer cancel()
		err = errors.Join(err, failure.Annotate(store.Delete(ctx, key), "delete the proof's object", key))
	}()
	again, err := store.Create(ctx, key, []byte("2 "+key))
	if honours.Create = failure.Is(err, failure.Conflict); err == nil {
		first = again
	} else if !honours.Create {
		return honours, failure.Annotate(err, "prove conditional writes", store.URL())
	}
	if _, err = store.Replace(ctx, key, []byte("3 "+key), first); err != nil {
		return honours, failure.Annotate(err, "prove conditional writes", store.URL())
	}
	_, err = store.Replace(ctx, key, []byte("4 "+key), first)
	if honours.Replace = failure.Is(err, failure.Conflict); honours.Replace {
		err = nil
	}
	return honours, failure.Annotate(err, "prove conditional writes", store.URL())
}

func ignored(store objstore.Store, header, instead string) error {
	return failure.New(failure.Unready, "prove conditional writes", store.URL(),
		"its server ignores %s: %s, so two runs could work on one cluster", header, instead).
		WithHint("use Amazon S3, or a store that supports conditional writes (%s of PutObject); docs/storage.md lists "+
			"all requirements", header)
}

// Check is Open for a dry run, which records nothing in the storage. It always writes and deletes the proof's object: a
// storage that was proven once may be read-only now.
func Check(ctx context.Context, store objstore.Store) (*Storage, error) {
	s, err := Read(ctx, store)
	if err != nil {
		return nil, err
	}
	return s, Prove(ctx, store)
}
