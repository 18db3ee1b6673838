package copyrun_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/manifest/manifesttest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runner"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/storage"
	"github.com/tisnap/tisnap/pkg/wait"
)

// seen is EC2 with another answer about snapshots, from the call numbered from on.
type seen struct {
	*ebs.Client
	from, calls int
	as          func([]ebs.Snapshot) []ebs.Snapshot
}

func (c *seen) DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error) {
	found, err := c.Client.DescribeSnapshots(ctx, ids)
	if c.calls++; err == nil && c.calls >= c.from {
		found = c.as(found)
	}
	return found, err
}

// last changes the last snapshot of an answer.
func last(change func(*ebs.Snapshot)) func([]ebs.Snapshot) []ebs.Snapshot {
	return func(all []ebs.Snapshot) []ebs.Snapshot {
		change(&all[len(all)-1])
		return all
	}
}

func gone(all []ebs.Snapshot) []ebs.Snapshot { return all[:len(all)-1] }

// With one copy that is not what was asked for, when it is recorded or by the time of the seal, there is no backup.
func TestRun_ACopyIsNotWhatWasAskedFor_NothingIsSealed(t *testing.T) {
	t.Parallel()
	encrypted := last(func(s *ebs.Snapshot) { s.Encrypted = true })
	for name, row := range map[string]struct {
		as     func([]ebs.Snapshot) []ebs.Snapshot
		source func([]ebs.Snapshot) []ebs.Snapshot
		kind   failure.Kind
		key    string
	}{
		"it is gone":                 {gone, nil, failure.Unready, ""},
		"it is not completed":        {last(func(s *ebs.Snapshot) { s.State = ebs.SnapshotPending }), nil, failure.Corrupt, ""},
		"it is smaller":              {last(func(s *ebs.Snapshot) { s.SizeGiB-- }), nil, failure.Corrupt, ""},
		"it has less data":           {last(func(s *ebs.Snapshot) { s.FullBytes-- }), nil, failure.Corrupt, ""},
		"it is of another run":       {last(func(s *ebs.Snapshot) { s.Tags[ebs.TagRun] = "run-0" }), nil, failure.Corrupt, ""},
		"it is of another snapshot":  {last(func(s *ebs.Snapshot) { s.Tags[ebs.TagCopiedFrom] = "snap-0" }), nil, failure.Corrupt, ""},
		"it is no longer encrypted":  {slices.Clone[[]ebs.Snapshot], encrypted, failure.Corrupt, ""},
		"its key is not the alias's": {last(func(s *ebs.Snapshot) { s.KMSKey = keyB }), nil, failure.Corrupt, "alias/a"},
	} {
		for at, from := range map[string]int{"when it is recorded": 1, "at the seal": 2} {
			t.Run(name+" "+at, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, 2)
				backup := l.backup(t)
				deps := l.deps()
				deps.Target = &seen{Client: l.to.client, from: from, as: row.as}
				if row.source != nil {
					deps.Source = &seen{Client: l.from.client, as: row.source}
				}
				l.to.server.SetAlias("alias/a", keyA)
				options := l.options(backup, "run-1")
				options.KMSKey = row.key
				result, err := copyrun.Run(t.Context(), deps, options)
				require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
				require.False(t, result.Sealed)
				_, err = catalogOf(l.to).Load(t.Context(), backup)
				require.Error(t, err)
			})
		}
	}
}

// A copy is signed if a key is given, and is then no backup for who trusts another key. A source that the expected key did
// not sign is not copied.
func TestRun_SignKey_SignsTheCopy(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	backup := l.backup(t)
	options := l.options(backup, "run-1")
	options.SignKey = manifesttest.SigningKey(t)
	options.VerifyKey = options.SignKey.VerifyKey()
	_, err := copyrun.Run(t.Context(), l.deps(), options)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.Zero(t, l.copies())
	options.VerifyKey = nil
	_, err = copyrun.Run(t.Context(), l.deps(), options)
	require.NoError(t, err)
	_, err = catalog.Catalog{Store: l.to.at(), VerifyKey: options.SignKey.VerifyKey()}.Load(t.Context(), backup)
	require.NoError(t, err)
	_, err = catalog.Catalog{Store: l.to.at(), VerifyKey: manifesttest.OtherKey(t).VerifyKey()}.Load(t.Context(), backup)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "sign")
}

// A copy keeps the manifest of its nearest signed source, byte by byte, with the signature, and names it; without a key of
// its own there is a warning. Deleting a copy deletes that, too. What the source has no more, or what was changed there, is not
// carried on.
func TestRun_SourceIsSigned_KeptWithTheCopies(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.signKey = manifesttest.SigningKey(t)
	backup := l.backup(t)
	onward := l.onward("onward")
	reported := &notes{}
	deps := l.deps()
	deps.Sink = reported
	options := l.options(backup, "run-1")
	options.VerifyKey = l.signKey.VerifyKey()
	_, err := copyrun.Run(t.Context(), deps, options)
	require.NoError(t, err)
	require.Contains(t, reported.text, "its copy will not be")
	onward.run(t, backup, "run-2")
	signed, _, err := l.from.store.Get(t.Context(), manifest.ManifestKey(backup))
	require.NoError(t, err)
	seal, _, err := l.from.store.Get(t.Context(), manifest.SealKey(backup))
	require.NoError(t, err)
	for _, at := range []*place{l.to, onward.to} {
		m, err := catalogOf(at).Load(t.Context(), backup)
		require.NoError(t, err)
		origin, err := catalogOf(at).Origin(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, signed, origin.Manifest)
		of, err := manifest.DecodeSeal(seal)
		require.NoError(t, err)
		require.Equal(t, of.Signature, origin.Signature)
	}

	document, signature := manifest.OriginKeys(backup)
	for run, key := range map[cluster.RunID]string{"run-3": document, "run-4": signature} {
		body, version, err := l.to.store.Get(t.Context(), key)
		require.NoError(t, err)
		version, err = l.to.store.Replace(t.Context(), key, append(slices.Clone(body), '\n'), version)
		require.NoError(t, err)
		further := l.onward(string(run))
		further.run(t, backup, run)
		m, err := catalogOf(further.to).Load(t.Context(), backup)
		require.NoError(t, err)
		require.Nil(t, m.CopyOf.FirstSigned(), key)
		_, err = catalogOf(further.to).Origin(t.Context(), m)
		require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
		_, err = l.to.store.Replace(t.Context(), key, body, version)
		require.NoError(t, err)
	}

	_, err = gc.Delete(t.Context(), gc.Deps{EBS: l.to.client, Store: l.to.at()}, gc.DeleteOptions{Backup: backup, Last: true, Rate: 1000})
	require.NoError(t, err)
	left, err := l.to.store.List(t.Context(), manifest.BackupPrefix(backup))
	require.NoError(t, err)
	require.Empty(t, left)
}

// What cannot be copied is refused before anything is shared or made.
func TestRun_SourceCannotBeCopied_RefusedBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	for name, as := range map[string]func([]ebs.Snapshot) []ebs.Snapshot{
		"gone":       gone,
		"archived":   last(func(s *ebs.Snapshot) { s.Archived = true }),
		"on Outpost": last(func(s *ebs.Snapshot) { s.Outpost = "arn" }),
		"pending":    last(func(s *ebs.Snapshot) { s.State = ebs.SnapshotPending }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 2)
			backup := l.backup(t)
			deps := l.deps()
			deps.Source = &seen{Client: l.from.client, as: as}
			_, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			l.requireUnshared(t)
			require.Empty(t, l.to.server.MutatingCalls())
		})
	}
}

// Without the permission to copy nothing begins.
func TestRun_MayNotCopy_RefusedBeforeTheLock(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	backup := l.backup(t)
	require.NoError(t, l.from.client.ShareSnapshot(t.Context(), l.from.server.Snapshots()[0].ID, []string{away}))
	l.to.server.Deny("CopySnapshot")
	_, err := copyrun.Run(t.Context(), l.deps(), l.options(backup, "run-1"))
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	_, _, err = runlock.Read(t.Context(), l.to.store, (&journal.About{Operation: journal.Copy, Cluster: l.topology.Cluster}).Lock())
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

// A backup that another process has a lease on is not copied: the lease would end with that process.
func TestRun_LeaseIsAnothers_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	backup := l.backup(t)
	to, err := storage.Open(t.Context(), l.to.at(), "v1")
	require.NoError(t, err)
	owner := runlock.NewOwner("run-0", "copy")
	lease, err := runlock.Take(t.Context(), l.from.at(), journal.UseLock(l.topology.Cluster, to.ID), owner, runner.LockTTL, runlock.Notify{})
	require.NoError(t, err)
	_, err = copyrun.Run(t.Context(), l.deps(), l.options(backup, "run-1"))
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Zero(t, l.copies())
	require.NoError(t, lease.Release(t.Context()))
	l.run(t, backup, "run-1")
	l.requireWhole(t, backup)
}

// What carries the run's id by chance, from another storage, is neither taken for a copy nor deleted.
func TestRun_SnapshotOfAnotherStorage_IsLeftAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	backup := l.backup(t)
	source := l.from.server.Snapshots()[0].ID
	require.NoError(t, l.from.client.ShareSnapshot(t.Context(), source, []string{away}))
	other, err := l.to.client.CopySnapshot(t.Context(), ebs.CopyRequest{
		Snapshot: source, Region: homeAt, Tags: ebs.Tags{ebs.TagRun: "run-1", ebs.TagStorage: "another"},
	})
	require.NoError(t, err)
	result := l.run(t, backup, "run-1")
	require.NotEqual(t, other, result.Copies[0].Copy)
	require.Equal(t, 2, l.copies())
}

// A process that wakes up after another one has resumed its run makes and deletes nothing.
func TestRun_LaterProcessHasTheCopies_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	backup := l.backup(t)
	deps := l.deps()
	deps.Target = &later{Client: l.to.client}
	_, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "another process's")
	require.Equal(t, 2, l.copies())
	claim := catalog.Claim{ID: backup, Run: "run-2", Cluster: l.topology.Cluster}
	require.Equal(t, failure.Conflict, failure.KindOf(catalogOf(l.to).Claim(t.Context(), claim)), "the name is the run's")
}

// later shows copies as if a later process had requested them.
type later struct{ *ebs.Client }

func (c *later) FindSnapshots(ctx context.Context, tags ebs.Tags) ([]ebs.Snapshot, error) {
	found, err := c.Client.FindSnapshots(ctx, tags)
	for i := range found {
		found[i].Tags[ebs.TagEpoch] = ebs.EpochTag(99)
	}
	return found, err
}

// A person breaks the lock of a process that they take for dead: it asks for no copy that the next one asks for, too.
func TestRun_LockIsBroken_NoCopyIsAskedFor(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	backup := l.backup(t)
	deps := l.deps()
	deps.Target = &hooked{Client: l.to.client, before: sync.OnceFunc(func() {
		name := (&journal.About{Operation: journal.Copy, Cluster: l.topology.Cluster}).Lock()
		lock, _, err := runlock.Read(t.Context(), l.to.store, name)
		require.NoError(t, err)
		require.NoError(t, runlock.Break(t.Context(), l.to.store, name, lock.Epoch))
		require.NoError(t, wait.For(t.Context(), 2500*time.Millisecond), "a check of the lock counts for 2 s")
	})}
	_, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Zero(t, l.copies())
}

// hooked is EC2 with something that happens before the copies are listed.
type hooked struct {
	*ebs.Client
	before func()
}

func (c *hooked) FindSnapshots(ctx context.Context, tags ebs.Tags) ([]ebs.Snapshot, error) {
	c.before()
	return c.Client.FindSnapshots(ctx, tags)
}

// What the source's account shares by itself stays shared.
func TestRun_SharedBefore_StaysShared(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	backup := l.backup(t)
	before := l.from.server.Snapshots()[0].ID
	require.NoError(t, l.from.client.ShareSnapshot(t.Context(), before, []string{away}))
	l.run(t, backup, "run-1")
	for _, s := range l.from.server.Snapshots() {
		with, err := l.from.client.SharedWith(t.Context(), s.ID)
		require.NoError(t, err)
		require.Equal(t, s.ID == before, len(with) == 1, "%s", s.ID)
	}
}

// watching sees each event of a run.
type watching func(phase.Event)

func (f watching) Emit(e phase.Event) { f(e) }

// What tisnap's other runs copy takes of EC2's slots: the plan names it, and the copy waits for a slot.
func TestRun_OtherRunsCopy_NamedInThePlan(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2, func(c *ebstest.Config) { c.Rules.Copies.InProgress = 1 })
	backup := l.backup(t)
	l.shareAll(t, l.from.client.ShareSnapshot)
	require.NoError(t, l.to.faults.Add(fault.Rule{Point: "ec2.CopySnapshot.late", Position: fault.Stall}))
	other, err := l.to.client.CopySnapshot(t.Context(), ebs.CopyRequest{
		Snapshot: l.from.server.Snapshots()[0].ID, Region: homeAt, Tags: ebs.Tags{ebs.TagRun: "other"},
	})
	require.NoError(t, err)
	deps := l.deps()
	deps.Sink = watching(func(e phase.Event) { // the other copy has the slot until this one's begins
		if e.Type == phase.StepStarted && e.Step == "copy-snapshots" {
			assert.NoError(t, l.to.client.DeleteSnapshot(t.Context(), other))
		}
	})
	result, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
	require.NoError(t, err)
	require.Equal(t, 1, result.Plan.Others)
	require.Contains(t, result.Plan.Text(), "other runs have 1 of EC2's 20 slots for copies")
	l.requireWhole(t, backup)
	require.Zero(t, l.run(t, l.backup(t), "run-2").Plan.Others)
}
