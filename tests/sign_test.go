package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// The keys of the manifest's tests.
const (
	secretKey    = "../pkg/manifest/manifesttest/minisign.key"
	publicKey    = "../pkg/manifest/manifesttest/minisign.pub"
	encryptedKey = "../pkg/manifest/manifesttest/minisign.encrypted.key"
)

// TestSigned_BackupListDescribeRestore takes a backup with a key, and restores it by its public half. The parts follow each other.
func TestSigned_BackupListDescribeRestore(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 9})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	t.Run("keys that cannot be read", func(t *testing.T) { badKeys(t, p) })
	e := p.run(t, backupArgs("--name", string(firstBackup), "--sign-key", secretKey)...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)

	text, err := os.ReadFile(publicKey)
	require.NoError(t, err)
	_, line, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	for _, test := range []struct {
		name string
		args []string
	}{
		{"describe", []string{"describe", string(firstBackup), "--storage", whole, "--verify-key", publicKey}},
		{"list", []string{"list", "--storage", whole, "--verify-key", line}},
		{"dry run", restoreArgs("--to", "tidb/copy", "--dry-run", "--verify-key", line)},
		{"restore", restoreArgs("--to", "tidb/copy", "--verify-key", publicKey)},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := p.run(t, test.args...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
		})
	}
	t.Run("exchanged", func(t *testing.T) { exchanged(t, p) })
}

func badKeys(t *testing.T, p *place) {
	unreadable := filepath.Join(t.TempDir(), "none.key")
	checkAll(t, p, []badInput{
		{"no such key", backupArgs("--sign-key", unreadable), 2, []string{"read --sign-key of " + unreadable, "no such file"}, []string{"minisign -G"}},
		{"no such key, dry run", backupArgs("--sign-key", unreadable, "--dry-run"), 2, []string{"read --sign-key"}, []string{"minisign -G"}},
		{"public key", backupArgs("--sign-key", publicKey), 2, []string{"it is no secret key of minisign"}, []string{"minisign -G"}},
		{"encrypted key without a password", backupArgs("--sign-key", encryptedKey), 2, []string{"the key is encrypted"}, []string{"TISNAP_SIGN_PASSWORD"}},
		{"no such public key", restoreArgs("--to", "tidb/copy", "--verify-key", unreadable), 2, []string{"read --verify-key"}, []string{"minisign.pub"}},
		{"secret key", restoreArgs("--to", "tidb/copy", "--verify-key", secretKey), 2, []string{"it is no public key of minisign"}, []string{"minisign.pub"}},
	})
}

// exchanged seals the manifest again after two stores' snapshots were exchanged in it: only the signature shows it
// before EC2 is asked.
func exchanged(t *testing.T, p *place) {
	store := p.storage(t, whole)
	doc, seal := get(t, store, manifest.ManifestKey(firstBackup)), get(t, store, manifest.SealKey(firstBackup))
	m, err := manifest.Open(doc, seal)
	require.NoError(t, err)
	one, other := m.Snapshots[0].ID, m.SnapshotsOf(m.Source.Stores[1].ID)[0].ID
	changed := []byte(strings.NewReplacer(string(one), string(other), string(other), string(one)).Replace(string(doc)))
	require.NotEqual(t, doc, changed)
	again, err := manifest.Seal(changed, time.Now(), 0)
	require.NoError(t, err)
	put(t, store, manifest.ManifestKey(firstBackup), changed)
	put(t, store, manifest.SealKey(firstBackup), again)
	defer put(t, store, manifest.ManifestKey(firstBackup), doc)
	defer put(t, store, manifest.SealKey(firstBackup), seal)

	target := "tidb/other"
	for name, args := range map[string][]string{
		"describe": {"describe", string(firstBackup), "--storage", whole},
		"restore":  restoreArgs("--to", target),
		"dry run":  restoreArgs("--to", target, "--dry-run"),
		"resolve":  {"resolve", "tidb/copy", "--backup", string(firstBackup), "--storage", whole},
	} {
		t.Run(name, func(t *testing.T) {
			e := p.run(t, append(args, "--verify-key", publicKey)...)
			assert.Equal(t, cli.ExitCode(10), e.code, e.stderr)
			assert.Contains(t, e.line("error: "), "it is not signed, and a signature by key DC92731EB1878E64 is demanded")
			assert.Contains(t, e.line("hint: "), "made without --sign-key, or someone else sealed it again")
			assert.NotContains(t, strings.ToLower(e.stderr), "try again")
		})
	}
	e := p.run(t, "list", "--storage", whole, "--verify-key", publicKey)
	assert.Equal(t, cli.ExitCode(10), e.code, e.stderr)
	assert.Contains(t, e.stdout, "untrusted")
	assert.Contains(t, e.line("error: "), string(firstBackup))
}
