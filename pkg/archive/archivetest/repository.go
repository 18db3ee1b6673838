// Package archivetest makes archive repositories for tests.
package archivetest

import (
	"context"

	"filippo.io/age"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// New creates a repository in a store, with packs of this size and one key slot, which the identity opens.
func New(
	ctx context.Context, store objstore.Store, packSize int64,
) (*repository.Repository, *age.X25519Identity, error) {
	return NewWith(ctx, store, format.Settings{PackSize: packSize})
}

// NewWith is New with these settings, in a storage that honours conditional writes.
func NewWith(
	ctx context.Context, store objstore.Store, settings format.Settings,
) (*repository.Repository, *age.X25519Identity, error) {
	owner, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, nil, err
	}
	keys, err := format.NewKeyring()
	if err != nil {
		return nil, nil, err
	}
	slot, err := keys.AgeSlot("owner", owner.Recipient().String(), owner.Recipient())
	if err != nil {
		return nil, nil, err
	}
	settings.Storage.ConditionalCreate, settings.Storage.ConditionalReplace = true, true
	r, err := repository.Init(ctx, store, keys, []format.Slot{slot}, settings)
	return r, owner, err
}
