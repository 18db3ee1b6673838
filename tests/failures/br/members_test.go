package br_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// firstCut is the number of the first CreateSnapshots call that is no dry run: preflight makes one.
const firstCut = 2

// https://github.com/pingcap/tidb-operator/issues/5488
// Catalogue: A2.
func TestCreateSnapshotsRefusedForOneStore_ReleasesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	t.Run("its own hold", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Code: "UnauthorizedOperation"})
		p.backup(t).requireRefused(t, "UnauthorizedOperation")
		require.Empty(t, p.faults.Unreached())
		require.Empty(t, p.c.Held())
		p.requireNothingLeft(t)
	})
	t.Run("the other job's hold", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		pause := p.pause(t)
		pause.awaitLine(t, "All ready")
		p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Code: "UnauthorizedOperation"})
		p.backup(t, underPause).requireRefused(t, "UnauthorizedOperation")
		require.Empty(t, p.faults.Unreached())
		p.requireNothingLeft(t)
		require.NotEmpty(t, p.c.Held(), "the Operator ends the other job")
		pause.stop()
		require.Equal(t, brcompat.ExitDone, pause.ends(t), pause.out())
		require.Empty(t, p.c.Held())
		again := p.backup(t)
		require.Equal(t, brcompat.ExitDone, again.ends(t), "the prefix is free again: %s", again.out())
	})
}

// slowSnapshots keeps snapshots pending, so that a test can act while the backup waits for them.
func slowSnapshots(c *testbed.Config) {
	c.Rules.SnapshotBase = time.Minute // 3 s here
}

// https://github.com/pingcap/tidb-operator/issues/5331
// Catalogue: A3.
func TestHoldersEnd_IsAFailureOnlyBeforeTheCutIsProven(t *testing.T) {
	t.Parallel()
	t.Run("after", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, slowSnapshots)
		pause := p.pause(t)
		pause.awaitLine(t, "All ready")
		backup := p.backup(t, underPause)
		p.awaitBackupMeta(t)
		pause.stop() // the Operator ends it when backupmeta is there
		require.Equal(t, brcompat.ExitDone, pause.ends(t), pause.out())
		require.Empty(t, p.c.Held())
		require.Equal(t, brcompat.ExitDone, backup.ends(t), backup.out())
	})
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		pause := p.pause(t)
		pause.awaitLine(t, "All ready")
		p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Do: func() {
			pause.stop()
			<-pause.done
		}})
		backup := p.backup(t, underPause)
		backup.requireRefused(t, "safe point")
		require.Contains(t, backup.condition(), "is gone")
		require.Empty(t, p.faults.Unreached())
		require.Equal(t, brcompat.ExitDone, pause.code)
		require.Empty(t, p.c.Held())
		p.requireNothingLeft(t)
	})
}

func (p *place) awaitBackupMeta(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return p.backupMeta(t) != nil }, patience, 20*time.Millisecond)
}

// https://github.com/pingcap/tidb-operator/issues/5478
// Catalogue: A4.
func TestOneInstanceIsSlow_SnapshotsAreNotReportedEarly(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.pause(t)
	pause.awaitLine(t, "All ready")
	var early bool
	p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut + 1, Position: fault.Slow, Delay: 2 * time.Second, Do: func() {
		early = p.backupMeta(t) != nil
	}})
	backup := p.backup(t, underPause)
	p.awaitBackupMeta(t)
	require.Empty(t, p.faults.Unreached())
	require.False(t, early)
	require.Len(t, p.EC2.Snapshots(), 6, "by backupmeta the Operator knows that all are there, and ends the hold")
	require.NotEmpty(t, p.c.Held())
	require.Equal(t, brcompat.ExitDone, backup.ends(t), backup.out())
}

// A store restarts while EC2 answers: neither job is a success, and the set is thrown away.
// Catalogue: A8.
func TestStoreForgetsItsLeaseInTheCut_BothJobsFail(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.pause(t)
	pause.awaitLine(t, "All ready")
	p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Do: p.c.Stores()[1].DropLease})
	p.backup(t, underPause).requireRefused(t, "hold")
	require.Equal(t, brcompat.ExitFailed, pause.ends(t))
	require.Empty(t, p.faults.Unreached())
	require.Empty(t, p.c.Held())
	p.requireNothingLeft(t)
}

// The other job's hold is only claimed: br believed the flag.
func TestBackup_OtherJobHoldsNothing_IsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.backup(t, underPause).requireRefused(t, "no process holds the cluster")
	p.requireNothingLeft(t)
}

// https://github.com/pingcap/tidb-operator/issues/5281: the manager reads stdout to its end and only then stderr.
// Catalogue: C2.
func TestStderrIsReadLast_IsSmall(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Code: "UnauthorizedOperation", Times: -1})
	failed := p.backup(t)
	require.Equal(t, brcompat.ExitFailed, failed.ends(t))
	require.Contains(t, failed.condition(), "UnauthorizedOperation")
	require.Less(t, len(failed.condition()), 4096, "a pipe holds that much on every system")
	require.Equal(t, 1, strings.Count(failed.condition(), "\n"), "the text is in the condition once: %s", failed.condition())
}

// https://github.com/pingcap/tidb-operator/issues/5459
// Catalogue: C10.
func TestClaimsOfScaledInStores_AreLeftOut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	stray := func(kind, name, spec string) json.RawMessage {
		return json.RawMessage(`{"metadata":{"name":"` + name + `","annotations":{"temporary/volume-id":"vol-stray"}},"spec":` + spec + `,"kind":"` + kind + `"}`)
	}
	volumes := len(p.meta.Kubernetes.PVs)
	p.meta.Kubernetes.PVs = append(p.meta.Kubernetes.PVs, stray("PersistentVolume", "pv-stray", `{"csi":{"volumeHandle":"vol-stray"}}`))
	p.meta.Kubernetes.PVCs = append(p.meta.Kubernetes.PVCs,
		stray("PersistentVolumeClaim", "tikv-prod-tikv-3", `{"volumeName":"pv-stray"}`), stray("PersistentVolumeClaim", "unbound", `{}`))
	p.writeMeta(t)
	backup := p.backup(t)
	require.Equal(t, brcompat.ExitDone, backup.ends(t), backup.out())
	require.Contains(t, backup.out(), "pv-stray")
	meta := p.backupMeta(t)
	require.Len(t, meta.Kubernetes.PVs, volumes)
	require.Len(t, meta.Kubernetes.PVCs, volumes)
	require.Len(t, p.EC2.Snapshots(), volumes)
}

// The Operator's document is checked once, before anything is changed.
// https://github.com/pingcap/tidb-operator/issues/5021, https://github.com/pingcap/tidb-operator/issues/5658
// Catalogue: C11.
func TestDocumentDoesNotMatch_IsRefusedBeforeAnyChange(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	p := newPlace(t)
	good, err := p.meta.Encode()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		harm func(doc map[string]any)
		want string
	}{
		"9 stores where 3 are named": {func(d map[string]any) { d["tikv"].(map[string]any)["replicas"] = 9 }, "lists 3 TiKV stores but declares 9"},
		"no stores":                  {func(d map[string]any) { d["tikv"] = map[string]any{"replicas": 0, "stores": []any{}} }, "no TiKV store"},
		"a store is missing": {func(d map[string]any) {
			tikv := d["tikv"].(map[string]any)
			tikv["stores"], tikv["replicas"] = tikv["stores"].([]any)[:2], 2
			d["kubernetes"].(map[string]any)["pvs"], d["kubernetes"].(map[string]any)["pvcs"] = nil, nil
		}, "is in PD but has no pod"},
		"no claim": {func(d map[string]any) {
			k := d["kubernetes"].(map[string]any)
			k["pvcs"] = k["pvcs"].([]any)[1:]
		}, "6 persistent volumes and 5 claims"},
	} {
		t.Run(name, func(t *testing.T) {
			var doc map[string]any
			require.NoError(t, json.Unmarshal(good, &doc))
			c.harm(doc)
			bad, err := json.Marshal(doc)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(p.volumeFile(), bad, 0o600))
			before := p.MutatingCalls()
			p.backup(t).requireRefused(t, c.want)
			require.Equal(t, before, p.MutatingCalls())
		})
	}
}

// https://github.com/pingcap/tidb-operator/issues/5284: also the document before the backup can be missing or cut off.
// Catalogue: C13.
func TestVolumeFileIsMissingOrCutOff_IsRefused(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	p := newPlace(t)
	good, err := os.ReadFile(p.volumeFile())
	require.NoError(t, err)
	for name, content := range map[string][]byte{"missing": nil, "empty": {}, "cut off": good[:len(good)/2]} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(p.volumeFile()))
			if content != nil {
				require.NoError(t, os.WriteFile(p.volumeFile(), content, 0o600))
			}
			p.backup(t).requireRefused(t, p.volumeFile())
			require.Empty(t, p.EC2.Snapshots())
		})
	}
}

// https://github.com/pingcap/tidb-operator/issues/5227: br lists the blocks of all snapshots to know their size.
// Catalogue: C12.
func TestEBSDirectAlwaysThrottles_BackupIsComplete(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.fault(t, fault.Rule{Point: "ebs.*", Code: "RequestThrottledException", Times: -1})
	backup := p.backup(t)
	require.Equal(t, brcompat.ExitDone, backup.ends(t), backup.out())
	require.NotEmpty(t, p.faults.Unreached(), "the size is taken from DescribeSnapshots")
	require.Contains(t, backup.out(), "[size=")
}

// SIGTERM while the snapshots are pending: nothing of the backup stays, and it is no success.
func TestBackup_TerminatedWhileItWaits_LeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t, slowSnapshots)
	backup := p.backup(t)
	p.awaitBackupMeta(t)
	backup.stop()
	require.Equal(t, brcompat.ExitFailed, backup.ends(t), backup.out())
	require.NotContains(t, backup.out(), "EBS backup success")
	require.Less(t, p.progress(t), 100.0)
	require.Empty(t, p.c.Held())
	p.requireNothingLeft(t)
}
