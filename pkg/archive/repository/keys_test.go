package repository_test

import (
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

const phrase = "correct horse battery staple"

// change changes the keys of the lab's repository.
func (l *lab) change(t *testing.T, by age.Identity, change func(*repository.Keys) error) error {
	t.Helper()
	_, err := repository.ChangeKeys(t.Context(), l.store, []age.Identity{by}, change)
	return err
}

// add adds a slot for a new age identity.
func (l *lab) add(t *testing.T, name string) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	require.NoError(t, l.change(t, l.owner, func(k *repository.Keys) error {
		s, err := k.AgeSlot(name, id.Recipient().String(), id.Recipient())
		require.NoError(t, err)
		return k.Add(s)
	}))
	return id
}

func (l *lab) opens(t *testing.T, by age.Identity) bool {
	t.Helper()
	_, err := repository.Open(t.Context(), l.store, by)
	if err != nil {
		require.True(t, failure.Is(err, failure.Denied), "%v", err)
	}
	return err == nil
}

// Each slot unlocks the repository until it is removed; the last one stays.
func TestChangeKeys_AddAndRemove(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other := l.add(t, "other")
	require.True(t, l.opens(t, other))
	err := l.change(t, l.owner, func(k *repository.Keys) error { return k.Add(format.Slot{Name: "other"}) })
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	err = l.change(t, l.owner, func(k *repository.Keys) error { return k.Remove("third") })
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	require.NoError(t, l.change(t, l.owner, func(k *repository.Keys) error { return k.Remove(other.Recipient().String()) }))
	require.False(t, l.opens(t, other))
	err = l.change(t, l.owner, func(k *repository.Keys) error { return k.Remove("owner") })
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
	require.ErrorContains(t, err, "all archives would be lost")
	require.True(t, l.opens(t, l.owner))
}

// Two changes at the same time are both made.
func TestChangeKeys_AtTheSameTime_LosesNone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	raced := false
	require.NoError(t, l.change(t, l.owner, func(k *repository.Keys) error {
		if !raced {
			raced = true
			l.add(t, "first")
		}
		return k.Add(format.Slot{Type: "unknown", Name: "second"})
	}))
	keys, err := l.ReadKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys.Slots, 3)
}

// After a rotation a removed key opens nothing that is written since, and all that was written before is readable.
func TestRotate_OldAndNew_AreRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	archive := &format.Archive{Backup: "nightly", Manifest: format.NewManifest([]byte("{}"))}
	require.NoError(t, l.Commit(t.Context(), "old", archive))
	require.NoError(t, l.change(t, l.owner, func(k *repository.Keys) error {
		s, err := k.PassphraseSlot("safe", phrase)
		require.NoError(t, err)
		return k.Add(s)
	}))
	err := l.change(t, l.owner, func(k *repository.Keys) error { return k.Rotate(t.Context(), "", nil) })
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
	require.ErrorContains(t, err, "safe")
	err = l.change(t, l.owner, func(k *repository.Keys) error { return k.Rotate(t.Context(), "another phrase", nil) })
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
	require.NoError(t, l.change(t, l.owner, func(k *repository.Keys) error { return k.Rotate(t.Context(), phrase, nil) }))

	by, err := format.Passphrase(phrase)
	require.NoError(t, err)
	r, err := repository.Open(t.Context(), l.store, by)
	require.NoError(t, err)
	require.Equal(t, l.ID(), r.ID())
	require.EqualValues(t, 1, r.Keys().Generation())
	require.NoError(t, r.Commit(t.Context(), "new", archive))
	for _, id := range []string{"old", "new"} {
		_, err = r.Archive(t.Context(), id)
		require.NoError(t, err)
	}
	_, err = l.Archive(t.Context(), "new")
	require.Error(t, err, "the old key does not open it")
	require.True(t, l.opens(t, l.owner))
}
