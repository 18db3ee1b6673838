package br_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
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

// killAt starts a backup and kills its process when it has come to all the faults, which end.
func (p *place) killAt(t *testing.T, rules ...fault.Rule) {
	t.Helper()
	for _, r := range rules[:len(rules)-1] {
		p.fault(t, r)
	}
	p.launchBackup(t, rules[len(rules)-1]).kill(t)
	p.faults.Clear()
	p.ageLock(t)
}

// afterTheCut are the places around backupmeta and the seal at which a backup can be killed, whose cut is proven by then.
func afterTheCut() map[string][]fault.Rule {
	return map[string][]fault.Rule{
		"before the PUT of backupmeta":                  {{Point: "object.backupmeta", Nth: rootMeta, Position: fault.Stall, Times: -1}},
		"after the PUT of backupmeta, its answer lost":  lostAndStuck("object.backupmeta", rootMeta),
		"before the PUT of the seal":                    {{Point: "object.seal.json", Position: fault.Stall, Times: -1}},
		"after the PUT of the seal, its answer is lost": lostAndStuck("object.seal.json", 1),
	}
}

// A process is killed after its cut, and its Job is made again: the document is the same, so it is the same Backup. Until then
// what is there is restored only if it is sealed. Then the cut is completed: no second one is made, and nothing is deleted.
// Catalogue: C8.
func TestBackupKilledAfterItsCut_SameJobContinuesIt(t *testing.T) {
	t.Parallel()
	for name, rules := range afterTheCut() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.killAt(t, rules...)
			require.Empty(t, p.c.Held(), "the cut is over")
			p.requireJournalled(t)
			made := p.snapshots()
			if strings.Contains(name, "after the PUT of the seal") {
				p.requireWhole(t)
			} else {
				p.restoreVolumes(t).requireEnds(t, brcompat.ExitFailed)
			}
			p.requireCompletes(t)
			require.ElementsMatch(t, made, p.snapshots(), "it is the same set")
			again := p.backup(t)
			again.requireRefused(t, "which is sealed")
			p.requireWhole(t)
		})
	}
}

// A process is killed, and another Backup is made in its storage: the Operator has written its document again. It gets no
// snapshot of the earlier one, which is undone, unless that is whole.
// Catalogue: C8.
func TestBackupKilled_NextBackupBeginsFromScratch(t *testing.T) {
	t.Parallel()
	places := afterTheCut()
	places["in the cut"] = []fault.Rule{{Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Position: fault.Stall, Times: -1}}
	for name, rules := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.killAt(t, rules...)
			dead := p.snapshots()
			if name != "in the cut" { // there, no document could make it the same one
				p.meta.Kubernetes.TidbCluster = bytes.Replace(p.meta.Kubernetes.TidbCluster, []byte(`"metadata":{`), []byte(`"metadata":{"resourceVersion":"later",`), 1)
				p.writeMeta(t)
			}
			if strings.Contains(name, "after the PUT of the seal") {
				p.backup(t).requireRefused(t, "which is sealed")
				p.requireWhole(t)
				require.ElementsMatch(t, dead, p.snapshots())
				return
			}
			p.requireCompletes(t)
			for _, id := range dead {
				require.NotContains(t, p.snapshots(), id)
			}
		})
	}
}

// The one that is killed cut under the hold of the other job, which is alive: the job that is made again must not end that hold,
// and cuts under it. Once the hold is over, it only takes away what the dead one left.
// Catalogue: C8.
func TestBackupKilledUnderTheOthersHold_NextJobKeepsTheHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.pause(t)
	pause.awaitLine(t, "All ready")
	stuck := fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Position: fault.Stall, Times: -1}
	p.fault(t, stuck)
	p.launchBackup(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow}, underPause).kill(t)
	p.faults.Clear()
	p.ageLock(t)
	again := p.backup(t, underPause)
	require.Equal(t, brcompat.ExitDone, again.ends(t), again.out())
	p.requireWhole(t)
	require.NotEmpty(t, p.c.Held())
	pause.stop()
	require.Equal(t, brcompat.ExitDone, pause.ends(t), "the hold was unbroken: %s", pause.out())
	require.Empty(t, p.c.Held())
}

// While the first process is alive, the second one of the same Job touches nothing of it.
// Catalogue: C14.
func TestSecondJobOfTheSameBackup_IsRefusedWhileTheFirstLives(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	refused := make(chan struct{})
	let := sync.OnceFunc(func() { close(refused) })
	defer let()
	p.fault(t, fault.Rule{Point: "object.seal.json", Position: fault.Slow, Times: -1, Do: func() { <-refused }})
	first := p.backup(t)
	p.awaitBackupMeta(t)
	second := p.backup(t)
	second.requireRefused(t, "br backup")
	let()
	require.Equal(t, brcompat.ExitDone, first.ends(t), first.out())
	p.requireWhole(t)
}

func (p *place) snapshots() []cluster.SnapshotID {
	var ids []cluster.SnapshotID
	for _, s := range p.EC2.Snapshots() {
		ids = append(ids, s.ID)
	}
	return ids
}

// requireEnds waits for the end of a run.
func (j *job) requireEnds(t *testing.T, want brcompat.ExitCode) {
	t.Helper()
	require.Equal(t, want, j.ends(t), j.out())
}

// What br prints when a second signal kills it is true of its own runs, too: the abort releases the prefix.
// Catalogue: C8.
func TestBackupKilledAroundBackupmeta_AbortLeavesNothing(t *testing.T) {
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

// Answers are lost and nothing is killed: one set, and it is whole.
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
