package cli

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// A command that reads has a lease while it does, and fails if that was broken meanwhile.
func TestArchiveReading_LeaseIsBroken_FailsClosed(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	r := l.open(t)
	a := &app{}
	for _, broken := range []bool{false, true} {
		_, done, err := a.reading(t.Context(), r, "verify")
		require.NoError(t, err)
		all, err := lease.All(t.Context(), r.Objects())
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, "verify", all[0].Owner)
		if broken {
			require.NoError(t, all[0].Break(t.Context(), r.Objects(), nil))
		}
		err = done(failure.New(failure.Corrupt, "read pack", "one", "it is missing"))
		require.Equal(t, broken, failure.Is(err, failure.Conflict), "%v", err)
		require.ErrorContains(t, err, "it is missing")
		left, err := r.Objects().List(t.Context(), format.LeasePrefix)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// pruned is a store whose packs are all deleted, by a prune that broke the reader's lease, when the first is asked for.
type pruned struct {
	objstore.Store
	once sync.Once
	err  error
}

func (p *pruned) GetRange(ctx context.Context, key string, offset int64, into []byte) error {
	if strings.HasPrefix(key, format.PackPrefix) {
		p.once.Do(func() { p.err = p.prune(ctx) })
	}
	return p.Store.GetRange(ctx, key, offset, into)
}

func (p *pruned) prune(ctx context.Context) error {
	all, err := lease.All(ctx, p.Store)
	for i := range all {
		err = errors.Join(err, all[i].Break(ctx, p.Store, nil))
	}
	packs, listed := p.List(ctx, format.PackPrefix)
	err = errors.Join(err, listed)
	for _, o := range packs {
		err = errors.Join(err, p.Delete(ctx, o.Key))
	}
	return err
}

// What a prune deletes that broke the lease is no damage, which would be printed, recorded, and repaired.
func TestArchiveVerify_LeaseIsBroken_IsNoDamage(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	store, err := objstore.Open(t.Context(), l.url(), objstore.Config{})
	require.NoError(t, err)
	a := &app{}
	identities, err := a.identities(&repoFlags{identity: l.identity})
	require.NoError(t, err)
	late := &pruned{Store: store}
	r, err := repository.Open(t.Context(), late, identities...)
	require.NoError(t, err)
	result, err := a.verifyHeld(t.Context(), r, nil, false, &verify.Options{Level: verify.Data, Sample: 1, Reads: 1})
	require.NoError(t, late.err)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.Nil(t, result)
	left, err := store.List(t.Context(), format.PackPrefix)
	require.NoError(t, err)
	require.Empty(t, left)
}
