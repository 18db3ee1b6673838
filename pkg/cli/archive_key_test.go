package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// keys runs a command about keys, and returns what it prints.
func (l *archiveLab) keys(t *testing.T, args ...string) *archiveKeysDoc {
	t.Helper()
	code, out, stderr := l.run(t, append([]string{"key"}, append(args, "-o", "json")...)...)
	require.Equal(t, ExitDone, code, stderr)
	doc := &archiveKeysDoc{}
	require.NoError(t, json.Unmarshal([]byte(out), doc))
	return doc
}

func TestArchiveKey_AddRotateRemove(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "a-1", 2)
	identity, recipient := newIdentity(t)
	require.Len(t, l.keys(t, "add", "safe", "--recipient", recipient).Items, 2)
	second := *l
	second.identity = identity
	require.Equal(t, l.keys(t, "list"), second.keys(t, "list"))
	require.EqualValues(t, 1, l.keys(t, "rotate").Generation)
	l.put(t, "a-2", 2)
	for _, id := range []string{"a-1", "a-2"} {
		code, _, stderr := second.run(t, "verify", id)
		require.Equal(t, ExitDone, code, stderr)
	}
	code, _, stderr := l.run(t, "key", "remove", "safe")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, stderr, "ONE key")
	code, _, _ = second.run(t, "list")
	require.NotEqual(t, ExitDone, code)
	code, _, stderr = l.run(t, "key", "remove", "age-1")
	require.EqualValues(t, 2, code, stderr)
}

func TestArchiveKey_WrongArguments_AreRefused(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	for name, args := range map[string][]string{
		"nothing to add": {"add", "safe"}, "both": {"add", "safe", "--recipient", "age1x", "--new-passphrase-file", "x"},
		"no recipient": {"add", "safe", "--recipient", "me"}, "no name": {"remove"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := l.run(t, append([]string{"key"}, args...)...)
			require.EqualValues(t, 2, code, stderr)
		})
	}
}
