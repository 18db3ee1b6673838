package format

import (
	"bytes"
	"context"
	"maps"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// keeper is a KMS whose ciphertexts are numbers.
type keeper struct {
	sealed []sealed
	asked  int
	err    error
}

type sealed struct {
	key   string
	plain []byte
	about map[string]string
}

func (k *keeper) EncryptByKey(_ context.Context, key string, plain []byte, about map[string]string) ([]byte, error) {
	k.sealed = append(k.sealed, sealed{key, bytes.Clone(plain), about})
	return []byte{byte(len(k.sealed) - 1)}, k.err
}

func (k *keeper) DecryptByKey(_ context.Context, key string, data []byte, about map[string]string) ([]byte, error) {
	k.asked++
	if s := k.sealed[data[0]]; k.err == nil && s.key == key && maps.Equal(s.about, about) {
		return s.plain, nil
	}
	return nil, failure.New(failure.Denied, "decrypt by kms key", key, "not allowed")
}

// withKMS is repo.json with a slot of KMS, and one of age.
func withKMS(t *testing.T, keys *Keyring, by KMS, id *age.X25519Identity) []byte {
	t.Helper()
	slot, err := keys.KMSSlot(t.Context(), "prod", "arn", by)
	require.NoError(t, err)
	other, err := keys.AgeSlot("ops", id.Recipient().String(), id.Recipient())
	require.NoError(t, err)
	data, err := EncodeRepository(keys, []Slot{slot, other}, Settings{})
	require.NoError(t, err)
	return data
}

// KMS opens a slot of its own, if it is that of this repository. It is not asked if another identity opens one.
func TestUnlock_KMS(t *testing.T) {
	t.Parallel()
	keys, id, by := newKeys(t), identity(t), &keeper{}
	data := withKMS(t, keys, by, id)
	got, err := unlock(t, data, id, ByKMS(by))
	require.NoError(t, err)
	require.Equal(t, keys, got)
	require.Zero(t, by.asked)
	got, err = unlock(t, data, identity(t), ByKMS(by))
	require.NoError(t, err)
	require.Equal(t, keys, got)
	require.Equal(t, 1, by.asked)

	_, err = unlock(t, data, identity(t))
	require.ErrorContains(t, err, "none of its 2 key slots")
	by.sealed[0].about = kmsContext(newKeys(t).Repository())
	_, err = unlock(t, data, ByKMS(by))
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "open key slot of prod")
	by.sealed[0].about, by.sealed[0].plain = kmsContext(keys.Repository()), []byte("short")
	_, err = unlock(t, data, ByKMS(by))
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)

	by.err = failure.New(failure.Denied, "encrypt by kms key", "arn", "not allowed")
	_, err = keys.KMSSlot(t.Context(), "prod", "arn", by)
	require.Equal(t, failure.Denied, failure.KindOf(err))
}

func TestUnlock_NoKeyAtAll_IsSo(t *testing.T) {
	t.Parallel()
	_, err := unlock(t, encoded(t, newKeys(t), identity(t)), ByKMS(&keeper{}))
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "no key is given")
}
