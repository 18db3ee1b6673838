package operator_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/manifest"
)

// It lets both halves of a restore start from a document, a manifest or a seal that is missing, cut short, or has a
// byte flipped (tidb-operator#5284, tidb#37581).
// Catalogue: C13.
func TestRestoreOfAPartialDocument_IsRefusedBeforeAnyChange(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t)
	missing := func([]byte) []byte { return nil }
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	flipped := func(b []byte) []byte {
		i := bytes.Index(b, []byte(`"snap-`)) + len(`"snap-`)
		b[i] ^= 1
		return b
	}
	for name, c := range map[string]struct {
		key    string
		change func([]byte) []byte
		want   string
	}{
		"no document":        {manifest.BRBackupMeta, missing, "there is no backupmeta: no backup was completed there"},
		"a cut document":     {manifest.BRBackupMeta, cut, "read br document"},
		"an empty document":  {manifest.BRBackupMeta, func([]byte) []byte { return []byte("{}") }, "no cluster_info"},
		"a flipped document": {manifest.BRBackupMeta, flipped, "backupmeta names other snapshots than its manifest"},
		"no manifest":        {p.key(t, manifest.ManifestFile), missing, "manifest"},
		"a cut manifest":     {p.key(t, manifest.ManifestFile), cut, "manifest"},
		"a flipped manifest": {p.key(t, manifest.ManifestFile), flipped, "manifest has SHA-256"},
		"no seal":            {p.key(t, manifest.SealFile), missing, "seal"},
	} {
		t.Run(name, func(t *testing.T) {
			p.changed(t, c.key, c.change, func() {
				p.refused(t, p.RestoreVolumes, c.want)
				p.refused(t, p.RestoreData, c.want)
			})
		})
	}
}

// It restores a document whose number of stores is that of another scope (tidb-operator#5021): it is refused at once,
// with both numbers.
// Catalogue: C11.
func TestRestoreOfOtherNumberOfStores_IsRefusedOnceWithBothNumbers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.changed(t, manifest.BRBackupMeta, func(b []byte) []byte {
		return bytes.Replace(b, []byte(`"replicas":3`), []byte(`"replicas":9`), 1)
	}, func() {
		p.refused(t, p.RestoreVolumes, "3 TiKV stores, but replicas is 9")
		p.refused(t, p.RestoreData, "3 TiKV stores, but replicas is 9")
	})
}

// It restores a document with a claim and a persistent volume that no store uses, which the Operator would refuse
// when the volumes are made (tidb-operator#5459), and one that misses a volume's.
// Catalogue: C10.
func TestRestoreWithStrayObjects_LeavesThemOut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	edit := func(change func(d *manifest.BRMeta)) func([]byte) []byte {
		return func(b []byte) []byte {
			d, err := manifest.ParseBR(b)
			require.NoError(t, err)
			change(d)
			b, err = d.Encode()
			require.NoError(t, err)
			return b
		}
	}
	p.changed(t, manifest.BRBackupMeta, edit(func(d *manifest.BRMeta) {
		d.Kubernetes.PVs, d.Kubernetes.PVCs = d.Kubernetes.PVs[1:], d.Kubernetes.PVCs[1:]
	}), func() { p.refused(t, p.RestoreVolumes, "has no persistent volume") })

	stray := func(raw json.RawMessage) json.RawMessage {
		for _, id := range []string{"tikv-prod-tikv-0", "tikv-raft-log-prod-tikv-0", "pvc-", "vol-"} {
			raw = json.RawMessage(strings.ReplaceAll(string(raw), id, "old-"+id))
		}
		return raw
	}
	p.changed(t, manifest.BRBackupMeta, edit(func(d *manifest.BRMeta) {
		d.Kubernetes.PVs = append(d.Kubernetes.PVs, stray(d.Kubernetes.PVs[0]))
		d.Kubernetes.PVCs = append(d.Kubernetes.PVCs, stray(d.Kubernetes.PVCs[0]))
	}), func() {
		run, err := p.RestoreVolumes(within(t), p.target) // it binds them by the Operator's rules
		require.NoError(t, err)
		require.True(t, run.Printed("omitting objects that belong to none"))
		require.Len(t, p.restored(), 6)
	})
}
