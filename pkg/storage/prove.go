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

// Prove writes a test object and checks that the server refuses to create it again and to replace an old version of it.
// Otherwise two runs could work on one cluster at the same time unnoticed: Unready, naming what is missing. It deletes
// the object.
func Prove(ctx context.Context, store objstore.Store) (err error) {
	key := manifest.ProbesPrefix + strings.ToLower(rand.Text())
	first, err := store.Create(ctx, key, []byte("1 "+key))
	if err != nil {
		return failure.Annotate(err, "prove conditional writes", store.URL())
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer cancel()
		err = errors.Join(err, failure.Annotate(store.Delete(ctx, key), "delete the proof's object", key))
	}()
	_, err = store.Create(ctx, key, []byte("2 "+key))
	if err := refused(store, err, "If-None-Match", "it created an object that exists"); err != nil {
		return err
	}
	if _, err = store.Replace(ctx, key, []byte("3 "+key), first); err != nil {
		return failure.Annotate(err, "prove conditional writes", store.URL())
	}
	_, err = store.Replace(ctx, key, []byte("4 "+key), first)
	return refused(store, err, "If-Match", "it replaced an object of another version")
}

// refused returns nil if the server refused with a conflict.
func refused(store objstore.Store, err error, header, instead string) error {
	switch {
	case failure.Is(err, failure.Conflict):
		return nil
	case err != nil:
		return failure.Annotate(err, "prove conditional writes", store.URL())
	}
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
