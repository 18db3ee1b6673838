package format

import (
	"bytes"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// encoded is repo.json with a slot for an identity.
func encoded(t testing.TB, keys *Keyring, id *age.X25519Identity) []byte {
	slot, err := keys.AgeSlot("ops", id.Recipient().String(), id.Recipient())
	require.NoError(t, err)
	data, err := EncodeRepository(keys, []Slot{slot}, Settings{PackSize: 32 << 20, Storage: Storage{ConditionalCreate: true}})
	require.NoError(t, err)
	return data
}

func unlock(t testing.TB, data []byte, ids ...age.Identity) (*Keyring, error) {
	t.Helper()
	r, err := DecodeRepository(data)
	require.NoError(t, err)
	return r.Unlock(t.Context(), ids...)
}

func TestUnlock_GivesBackEveryGeneration(t *testing.T) {
	t.Parallel()
	keys, id := newKeys(t), identity(t)
	for range 3 {
		got, err := unlock(t, encoded(t, keys, id), id)
		require.NoError(t, err)
		assert.Equal(t, keys, got)
		assert.Equal(t, keys.Repository(), got.Repository())
		keys, err = got.Rotated()
		require.NoError(t, err)
	}
	assert.EqualValues(t, 3, keys.Generation())
}

func TestUnlock_Passphrase(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	slot, err := keys.PassphraseSlot("safe", "correct horse")
	require.NoError(t, err)
	data, err := EncodeRepository(keys, []Slot{{Type: SlotKMS, Name: "later", Data: []byte{1}}, slot}, Settings{})
	require.NoError(t, err)
	right, err := Passphrase("correct horse")
	require.NoError(t, err)
	got, err := unlock(t, data, right)
	require.NoError(t, err)
	assert.Equal(t, keys, got)
	wrong, err := Passphrase("wrong horse")
	require.NoError(t, err)
	_, err = unlock(t, data, wrong)
	require.ErrorContains(t, err, "none of its 2 key slots")
	assert.Equal(t, failure.Denied, failure.KindOf(err))
	assert.NotEmpty(t, failure.HintOf(err))
	_, err = Passphrase("")
	require.Error(t, err)
}

func TestUnlock_RemovedSlot_Refused(t *testing.T) {
	t.Parallel()
	keys, left, stays := newKeys(t), identity(t), identity(t)
	_, err := unlock(t, encoded(t, keys, left), left)
	require.NoError(t, err)
	_, err = unlock(t, encoded(t, keys, stays), left)
	require.ErrorContains(t, err, "none of its 1 key slots")
}

// TestUnlock_AnyChange_Refused changes each byte: who has no key can change nothing that is believed.
func TestUnlock_AnyChange_Refused(t *testing.T) {
	t.Parallel()
	first, id := newKeys(t), identity(t)
	keys, err := first.Rotated()
	require.NoError(t, err)
	data := encoded(t, keys, id)
	refused := func(bad []byte, what any) {
		t.Helper()
		r, err := DecodeRepository(bad)
		if err == nil {
			_, err = r.Unlock(t.Context(), id)
		}
		require.Error(t, err, what)
	}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		refused(bad, i)
	}
	refused(append(bytes.Clone(data), ' '), "a byte more")
	refused([]byte(strings.Replace(string(data), "\"\n}\n", "\",\n  \"settings\": {\"packSize\": 1}\n}\n", 1)), "a field after the MAC")
	refused(data[:len(data)-1], "a byte less")
}

// TestUnlock_KeyOfAnother_Refused: anybody can encrypt a key of their own for a recipient.
func TestUnlock_KeyOfAnother_Refused(t *testing.T) {
	t.Parallel()
	keys, attacker, id := newKeys(t), newKeys(t), identity(t)
	own := attacker.Repository()
	attacker.id = keys.Repository()
	_, err := unlock(t, encoded(t, attacker, id), id)
	require.ErrorContains(t, err, "its key is that of repository "+own.String())
	assert.Equal(t, failure.Corrupt, failure.KindOf(err))
}

func TestDecodeRepository_LaterVersion_AsksForANewerProgram(t *testing.T) {
	t.Parallel()
	data := encoded(t, newKeys(t), identity(t))
	for from, to := range map[string]string{
		`"version": 1`: `"version": 2`, `"settings": {`: `"requires": ["parity"], "settings": {`,
	} {
		_, err := DecodeRepository([]byte(strings.Replace(string(data), from, to, 1)))
		require.ErrorContains(t, err, "unknown")
		assert.NotEmpty(t, failure.HintOf(err))
	}
	_, err := DecodeRepository([]byte(`{"format":"other"}`))
	require.ErrorContains(t, err, "no archive repository's")
	_, err = DecodeRepository(make([]byte, maxRepository+1))
	require.ErrorContains(t, err, "1048577 bytes")
	_, err = EncodeRepository(newKeys(t), nil, Settings{})
	require.ErrorContains(t, err, "0 key slots")
}

func TestKeyring_PrintsNoKey(t *testing.T) {
	t.Parallel()
	keys := fixedKeys(t)
	assert.Equal(t, "keyring of "+keys.Repository().String(), keys.String())
	assert.Equal(t, keys.String(), keys.GoString())
}

func FuzzDecodeRepository(f *testing.F) {
	id := identity(f)
	keys := fixedKeys(f)
	data := encoded(f, keys, id)
	f.Add(data)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := DecodeRepository(text)
		if err != nil {
			return
		}
		if _, err := r.Unlock(t.Context(), id); err == nil {
			assert.Equal(t, string(data), string(text))
		}
	})
}
