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

// removeWithin bounds the removal of what a proof wrote.
const removeWithin = 10 * time.Second

// Prove writes an object of its own and sees that the server refuses to create it again and to replace a version that
// it does not have any more. Where it does not, two runs could have one cluster at the same time, and nobody would
// notice: Unready, which names what is missing. What it wrote is deleted.
func Prove(ctx context.Context, store objstore.Store) (err error) {
	key := manifest.ProbesPrefix + strings.ToLower(rand.Text())
	first, err := store.Create(ctx, key, []byte("1 "+key))
	if err != nil {
		return failure.Annotate(err, "prove conditional writes", store.URL())
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer cancel()
		err = errors.Join(err, failure.Annotate(store.Delete(ctx, key), "delete what a proof wrote", key))
	}()
	_, err = store.Create(ctx, key, []byte("2 "+key))
	if err := refused(store, err, "If-None-Match", "an object is created although it exists"); err != nil {
		return err
	}
	if _, err = store.Replace(ctx, key, []byte("3 "+key), first); err != nil {
		return failure.Annotate(err, "prove conditional writes", store.URL())
	}
	_, err = store.Replace(ctx, key, []byte("4 "+key), first)
	return refused(store, err, "If-Match", "an object is replaced although it has another version")
}

// refused is nil if the server refused with a conflict.
func refused(store objstore.Store, err error, header, but string) error {
	switch {
	case failure.Is(err, failure.Conflict):
		return nil
	case err != nil:
		return failure.Annotate(err, "prove conditional writes", store.URL())
	}
	return failure.New(failure.Unready, "prove conditional writes", store.URL(),
		"its server ignores %s: %s, so that two runs could have one cluster", header, but).
		WithHint("use Amazon S3, or a store that supports conditional writes (%s of PutObject); docs/storage.md has "+
			"what else a storage needs", header)
}

// Check is the proof of Open for a dry run, which notes nothing in the storage: what could not be proven, as nothing
// may be written, is said.
func Check(ctx context.Context, store objstore.Store, tool string) (s *Storage, unproven string, err error) {
	s, err = Read(ctx, store)
	if err != nil || s.proven(objstore.Server(store), tool) {
		return s, "", err
	}
	err = Prove(ctx, store)
	if failure.Is(err, failure.Denied) {
		return s, "whether the storage's server refuses writes whose condition does not hold was not checked: " +
			err.Error(), nil
	}
	return s, "", err
}
