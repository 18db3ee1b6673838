package br_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// member is the same cluster as a backup-manager in one of several Kubernetes clusters sees it: its own stores, and the
// others' as peers.
func (p *place) member(t *testing.T, own ...int) *place {
	t.Helper()
	m := &place{Testbed: p.Testbed, c: p.c, faults: p.faults, dir: t.TempDir(), meta: new(manifest.BRMeta)}
	whole, err := p.meta.Encode()
	require.NoError(t, err)
	m.meta, err = manifest.ParseBR(whole)
	require.NoError(t, err)
	peers, stores := "", []manifest.BRStore{}
	for i, s := range m.meta.TiKV.Stores {
		if slices.Contains(own, i) {
			stores = append(stores, s)
			continue
		}
		if peers != "" {
			peers += ","
		}
		peers += strconv.Quote(strconv.FormatUint(s.ID, 10)) + `:{"state":"Up"}`
	}
	m.meta.TiKV.Stores, m.meta.TiKV.Replicas = stores, len(stores)
	m.meta.Kubernetes.TidbCluster = []byte(`{"metadata":{"name":"prod","namespace":"tidb"},"status":{"clusterID":"1","tikv":{"peerStores":{` + peers + `}}}}`)
	m.writeMeta(t)
	return m
}

// A VolumeBackup over two Kubernetes clusters: one job holds all of it, each member cuts its own stores.
func TestBackup_MembersUnderOneHold_EachCutsItsOwnStores(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a, b := p.member(t, 0), p.member(t, 1, 2)
	alone := a.backup(t)
	alone.requireRefused(t, "2 of its stores are in other Kubernetes clusters")
	pause := p.pause(t)
	pause.awaitLine(t, "All ready")
	jobs := []*job{a.backup(t, underPause, "--storage", storage+"-0"), b.backup(t, underPause, "--storage", storage+"-1")}
	for i, j := range jobs {
		require.Equal(t, brcompat.ExitDone, j.ends(t), "member %d: %s", i, j.out())
	}
	require.Len(t, p.EC2.Snapshots(), 6)
	pause.stop()
	require.Equal(t, brcompat.ExitDone, pause.ends(t), pause.out())
	require.Empty(t, p.c.Held())
}
