package br_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// rootMeta is the number of the PUT of backupmeta at the root of the prefix: the first one is beside the manifest.
const rootMeta = 2

// lostAndStuck is a PUT that is carried out and whose answer is lost, and no answer to its repetition.
func lostAndStuck(point string, nth int) []fault.Rule {
	return []fault.Rule{{Point: point, Nth: nth, Position: fault.After}, {Point: point, Nth: nth, Position: fault.Stall, Times: -1}}
}

// killAt starts a backup and kills its process when it has come to all the faults. These end, and so does its lock, which nobody
// renews.
func (p *place) killAt(t *testing.T, rules ...fault.Rule) {
	t.Helper()
	for _, r := range rules[:len(rules)-1] {
		p.fault(t, r)
	}
	p.launchBackup(t, rules[len(rules)-1]).kill(t)
	p.faults.Clear()
	require.NoError(t, p.store(t).Delete(t.Context(), manifest.LockKey(prod)), "as if its time had run out")
}

// A process is killed around the PUT of backupmeta, which is there before the snapshots are completed. Whatever is there is
// restored only if it is sealed; the Job that is made again makes no second set beside it, and says what to do; after
// that, it completes.
func TestC8_BackupKilledAroundBackupmeta_IsWholeOrRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules   []fault.Rule
		restore string // why a restore of it is refused
		again   string // why the same Job is refused
	}{
		"before its PUT": {
			[]fault.Rule{{Point: "object.backupmeta", Nth: rootMeta, Position: fault.Stall, Times: -1}},
			"there is no backupmeta", "holds backup.lock of backup br-",
		},
		"after its PUT, whose answer is lost": {
			lostAndStuck("object.backupmeta", rootMeta), "it is not sealed", "holds backupmeta of backup br-",
		},
		"before the PUT of the seal": {
			[]fault.Rule{{Point: "object.seal.json", Position: fault.Stall, Times: -1}}, "it is not sealed", "holds backupmeta of backup br-",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.killAt(t, c.rules...)
			require.Empty(t, p.c.Held(), "the cut is over")
			p.requireJournalled(t)

			before := p.MutatingCalls()
			p.restoreVolumes(t).requireRefused(t, c.restore)
			again := p.backup(t)
			again.requireRefused(t, c.again)
			require.Contains(t, again.err(), "which is not sealed")
			require.Contains(t, again.err(), "tisnap gc --older-than 0s --yes --storage "+storage)
			require.Equal(t, before, p.MutatingCalls())

			p.tisnap(t, "gc", "--older-than", "0s", "--yes")
			p.requireNothingLeft(t)
			p.requireCompletes(t)
		})
	}
}

// Killed after the PUT of the seal, whose answer is lost: the backup is whole, and stays.
func TestC8_BackupKilledAfterTheSeal_IsWhole(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.killAt(t, lostAndStuck("object.seal.json", 1)...)
	p.requireWhole(t)
	again := p.backup(t)
	again.requireRefused(t, "holds backupmeta of backup br-")
	require.Contains(t, again.err(), "which is sealed")
	p.restoreVolumes(t).requireRefused(t, "its PD knows 3 stores already") // of the backup, nothing is refused
	p.tisnap(t, "gc", "--older-than", "0s", "--yes")
	p.requireWhole(t)
}

// What br says when it is killed by a second signal is true of its own runs, too: the abort lets go of the prefix.
func TestC8_BackupKilledAroundBackupmeta_AbortLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]fault.Rule{
		"in the cut":                 {Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Position: fault.Stall, Times: -1},
		"before the PUT of the seal": {Point: "object.seal.json", Position: fault.Stall, Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.killAt(t, rule)
			objects, err := p.store(t).List(t.Context(), manifest.RunsPrefix)
			require.NoError(t, err)
			run, _, ok := manifest.SplitJournalKey(objects[0].Key)
			require.True(t, ok)
			p.tisnap(t, "runs", "abort", string(run), "--yes")
			require.Empty(t, p.c.Held())
			p.requireNothingLeft(t)
			p.requireCompletes(t)
		})
	}
}

// Answers are lost and nobody is killed: one set, and it is whole.
func TestBackup_AnswersAroundBackupmetaAreLost_IsWhole(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, r := range []fault.Rule{
		{Point: "object.backup.lock", Position: fault.After},
		{Point: "object.backupmeta", Nth: rootMeta, Position: fault.After, Times: -1},
		{Point: "object.seal.json", Position: fault.After},
	} {
		p.fault(t, r)
	}
	p.requireCompletes(t)
	require.Empty(t, p.faults.Unreached())
}

// S3 refuses backupmeta: the backup fails and leaves nothing, and the same Job works when it may write.
func TestBackup_BackupmetaIsRefused_LeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.fault(t, fault.Rule{Point: "object.backupmeta", Nth: rootMeta, Code: "AccessDenied", Times: -1})
	p.backup(t).requireRefused(t, "AccessDenied")
	require.Empty(t, p.faults.Unreached())
	require.Empty(t, p.c.Held())
	p.requireNothingLeft(t)
	p.faults.Clear()
	p.requireCompletes(t)
}

// restoreVolumes runs what the Operator's restore-volume runs, on the source, which no restore may touch.
func (p *place) restoreVolumes(t *testing.T) *job {
	t.Helper()
	return p.start(t, "restore", "full", "--type=aws-ebs", "--prepare", "--pd="+p.pd(), "--storage="+storage, "--s3.region="+testbed.Region,
		"--s3.endpoint="+p.AWS(), "--progress-file="+p.progressFile(), "--output-file="+p.dir+"/csb_restore.json")
}

// tisnap runs tisnap on the same storage.
func (p *place) tisnap(t *testing.T, args ...string) {
	t.Helper()
	var out bytes.Buffer
	code := cli.Run(within(t, 4*time.Minute), append(args, "--storage", storage, "--endpoint-url", p.AWS(), "--region", testbed.Region,
		"--kubeconfig", p.Kubeconfig(), "--progress", "plain"), cli.Streams{Out: &out, Err: &out}, cli.Version{Version: "test"})
	require.Zero(t, code, out.String())
}

// requireCompletes runs a backup, which has to be the only one and whole.
func (p *place) requireCompletes(t *testing.T) {
	t.Helper()
	b := p.backup(t)
	require.Equal(t, brcompat.ExitDone, b.ends(t), b.out())
	require.Equal(t, b.resolvedTS(t), p.requireWhole(t).Cluster.ResolvedTS)
	require.Empty(t, p.c.Held())
}

// requireWhole checks that there is one sealed backup, that its snapshots are all there are, and that backupmeta names them.
func (p *place) requireWhole(t *testing.T) *manifest.BRMeta {
	t.Helper()
	c := catalog.Catalog{Store: p.store(t)}
	entries, err := c.List(t.Context())
	require.NoError(t, err)
	entries = slices.DeleteFunc(entries, func(e catalog.Entry) bool { return e.State != catalog.StateSealed })
	require.Len(t, entries, 1)
	m, err := c.Load(t.Context(), entries[0].ID)
	require.NoError(t, err)
	var there, named []cluster.SnapshotID
	for _, s := range p.EC2.Snapshots() {
		there = append(there, s.ID)
	}
	meta := p.backupMeta(t)
	require.NoError(t, meta.Validate())
	for _, s := range meta.TiKV.Stores {
		for _, v := range s.Volumes {
			named = append(named, cluster.SnapshotID(v.SnapshotID))
		}
	}
	require.Len(t, there, 6)
	require.ElementsMatch(t, there, named)
	require.ElementsMatch(t, there, m.SnapshotIDs())
	return meta
}
