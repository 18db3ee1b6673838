package suite

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// about is the context of encryption.
func about(repository string) map[string]string {
	return map[string]string{"tisnap.io/repository": repository}
}

func encryptByKey(t *testing.T, s Subject) {
	key, secret := s.Key(t), []byte("thirty-two bytes of a secret key")
	sealed, err := s.Client.EncryptByKey(t.Context(), key, secret, about("one"))
	require.NoError(t, err)
	require.NotEqual(t, secret, sealed)
	plain, err := s.Client.DecryptByKey(t.Context(), key, sealed, about("one"))
	require.NoError(t, err)
	require.Equal(t, secret, plain)
}

func decryptOther(t *testing.T, s Subject) {
	key, other := s.Key(t), s.Key(t)
	sealed, err := s.Client.EncryptByKey(t.Context(), key, []byte("secret"), about("one"))
	require.NoError(t, err)
	changed := slices.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for name, row := range map[string]struct {
		key    string
		sealed []byte
		about  map[string]string
	}{
		"context": {key, sealed, about("two")}, "no context": {key, sealed, nil}, "key": {other, sealed, about("one")},
		"bytes": {key, changed, about("one")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Client.DecryptByKey(t.Context(), row.key, row.sealed, row.about)
			require.Contains(t, []failure.Kind{failure.Corrupt, failure.Denied}, failure.KindOf(err), "%v", err)
		})
	}
}

func encryptDisabled(t *testing.T, s Subject) {
	s.needs(t, TraitKeyStates)
	key := s.Key(t)
	sealed, err := s.Client.EncryptByKey(t.Context(), key, []byte("secret"), about("one"))
	require.NoError(t, err)
	s.Disable(t, key)
	_, err = s.Client.EncryptByKey(t.Context(), key, []byte("secret"), about("one"))
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	_, err = s.Client.DecryptByKey(t.Context(), key, sealed, about("one"))
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "enable the KMS key")
}

func encryptElsewhere(t *testing.T, s Subject) {
	_, err := s.Away.EncryptByKey(t.Context(), s.Key(t), []byte("secret"), about("one"))
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}
