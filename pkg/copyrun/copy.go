package copyrun

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// maxFailures is how often a copy may fail at EC2, or disappear, in one process.
	maxFailures = 3
	// callLimit bounds one CopySnapshot: while EC2 makes as many copies as it can, the next round asks again.
	callLimit = time.Minute
)

// copier makes the copies. What exists it knows from EC2 alone, by the run's tag; what it asked for and EC2 does not
// show yet it waits for, as CopySnapshot has no token.
type copier struct {
	*run
	scope   *phase.Scope
	byID    map[sourceID]manifest.Snapshot
	copies  map[sourceID]ebs.Snapshot // by source: the one that counts
	awaited map[sourceID]time.Time    // until when EC2 may hide a copy that was asked for
	expects map[sourceID]sourceID     // the id of a copy that EC2 has accepted
	shown   map[sourceID]sourceID     // the copy that the journal has as completed
	failed  map[sourceID]int
	deleted map[sourceID]bool // copies, which EC2 may still show

	progress int64
	moved    time.Time
}

// copy makes all copies and returns when they are completed.
func (r *run) copy(ctx context.Context, s *phase.Scope) error {
	if r.earlier.sealed {
		return nil
	}
	c := &copier{
		run: r, scope: s, byID: map[sourceID]manifest.Snapshot{}, copies: map[sourceID]ebs.Snapshot{},
		awaited: map[sourceID]time.Time{}, expects: map[sourceID]sourceID{}, shown: map[sourceID]sourceID{},
		failed: map[sourceID]int{}, deleted: map[sourceID]bool{}, progress: -1, moved: time.Now(),
	}
	for _, m := range r.found.manifest.Snapshots {
		c.byID[m.ID] = m
	}
	for id := range r.earlier.Asked { // by a process that died
		c.awaited[id] = time.Now().Add(r.opts.Visibility)
	}
	for source, made := range r.earlier.Made {
		c.expects[source] = made.Copy
	}
	for source, made := range r.earlier.Completed {
		c.shown[source] = made.Copy
	}
	var total int64
	for _, p := range r.result.Plan.Copies {
		total += p.Bytes
	}
	s.Expect(total>>20, "MiB")
	pace := wait.Pace(ebs.NextPoll)
	if r.opts.Poll > 0 {
		pace = wait.Every(r.opts.Poll)
	}
	err := wait.Until(ctx, pace, func() (bool, error) {
		done, err := c.round(ctx)
		return done || err != nil, err
	})
	if ended := wait.EndOf(err); ended != nil {
		return failure.New(failure.Limited, "copy snapshots", string(r.opts.Backup),
			"%d of %d are not completed: %w", len(c.byID)-c.completedCount(), len(c.byID), ended.Cause)
	}
	if err != nil {
		return err
	}
	r.progress.made = map[sourceID]sourceID{}
	for source, made := range c.copies {
		r.progress.made[source] = made.ID
	}
	r.listCopies()
	return nil
}

// listCopies fills in the result.
func (r *run) listCopies() {
	full := map[sourceID]copyplan.Copy{}
	for _, p := range r.result.Plan.Copies {
		full[p.ID] = p
	}
	r.result.Copies = nil
	for _, m := range r.found.manifest.Snapshots {
		if id, done := r.progress.made[m.ID]; done {
			r.result.Copies = append(r.result.Copies, Copied{
				Store: m.Store, Role: m.Role, Snapshot: m.ID, Copy: id, Bytes: full[m.ID].Bytes, Full: full[m.ID].Full,
			})
		}
	}
}

// round looks at what exists, deletes what failed or is there twice, and asks for what may begin.
func (c *copier) round(ctx context.Context) (done bool, err error) {
	asked := time.Now() // not after the deletions, which may take longer than EC2 hides a copy
	found, err := c.Target.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(c.opts.Run)})
	if err != nil {
		if failure.Transient(err) && time.Since(c.moved) < c.opts.Stuck {
			c.retryLater("list the copies", err)
			return false, nil
		}
		return false, failure.Annotate(err, "find copies", "run "+string(c.opts.Run))
	}
	if err := c.classify(ctx, asked, found); err != nil {
		return false, err
	}
	if err := c.advance(); err != nil {
		return false, err
	}
	if c.completedCount() == len(c.byID) {
		return true, nil
	}
	return false, c.ask(ctx)
}

// retryLater logs, once for each kind of error, that the next round asks EC2 again.
func (c *copier) retryLater(what string, err error) {
	c.scope.Warn("EC2 in %s could not %s, and is asked again (%s)", c.Target.Region(), what, failure.KindOf(err))
	c.Log.Info("EC2 is asked again", zap.String("to", what), zap.Error(err))
}

// classify takes for each source the copy that is furthest, and deletes the others. EC2 was asked at that time.
func (c *copier) classify(ctx context.Context, asked time.Time, found []ebs.Snapshot) error {
	epoch := c.runner.Fence().Epoch()
	before := c.copies
	c.copies = map[sourceID]ebs.Snapshot{}
	slices.SortFunc(found, furthest)
	for _, s := range found {
		source := sourceID(s.Tags[ebs.TagCopiedFrom])
		if _, ours := c.byID[source]; !ours || c.deleted[s.ID] || s.Tags[ebs.TagStorage] != c.runner.StorageID() {
			continue
		}
		if err := s.Tags.MadeLater("copy snapshots", c.opts.Run, string(s.ID), epoch); err != nil {
			return err
		}
		_, taken := c.copies[source]
		broken := s.State.Outcome() == ebs.SnapshotFailed
		if !taken && !broken {
			c.copies[source] = s
			continue
		}
		if err := c.Target.DeleteSnapshot(ctx, s.ID); err != nil {
			return failure.Annotate(err, "delete copy", string(s.ID))
		}
		c.deleted[s.ID] = true
		if c.expects[source] == s.ID || before[source].ID == s.ID {
			delete(c.expects, source)
			delete(c.awaited, source)
			delete(before, source)
		}
		if broken {
			if err := c.noteFailure(source, s.Message); err != nil {
				return err
			}
		}
	}
	return c.expect(asked, before)
}

// expect notes of each source which copy the next answers have to show, and which of those that were shown is gone.
func (c *copier) expect(asked time.Time, before map[sourceID]ebs.Snapshot) error {
	for source := range c.byID {
		_, there := c.copies[source]
		id, expected := c.expects[source]
		switch until, waits := c.awaited[source]; {
		case there:
			delete(c.awaited, source)
			c.accepted(source, c.copies[source].ID) // also if its answer was lost
			c.completes(source)
		case before[source].ID != "": // EC2 may show an older state
			c.awaited[source] = asked.Add(c.opts.Visibility)
		case expected && !waits:
			c.awaited[source] = asked.Add(c.opts.Visibility)
		case waits && asked.After(until):
			delete(c.awaited, source)
			delete(c.expects, source)
			if expected {
				if err := c.noteFailure(source, "copy "+string(id)+" was deleted"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// furthest orders completed copies before pending ones, those before failed ones, and else by their start.
func furthest(a, b ebs.Snapshot) int {
	rank := func(s ebs.Snapshot) int {
		switch s.State.Outcome() {
		case ebs.SnapshotDone:
			return 0
		case ebs.SnapshotFailed:
			return 2
		default:
			return 1
		}
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	if d := a.StartedAt.Compare(b.StartedAt); d != 0 {
		return d
	}
	if a.ID < b.ID {
		return -1
	}
	return 1
}

// noteFailure counts a copy that EC2 could not make. It is made again, but not for ever.
func (c *copier) noteFailure(source sourceID, message string) error {
	c.failed[source]++
	if c.failed[source] < maxFailures {
		c.scope.Warn("the copy of snapshot %s failed and is made again: %s", source, message)
		return nil
	}
	return failure.New(failure.Unready, "copy snapshot", string(source), "it failed %d times, the last time with %q",
		maxFailures, message).
		WithHint("if it is about a key: account %s needs the source's key and that of the copies (docs/copies.md); "+
			"the same command resumes the copy", c.found.account)
}

func (c *copier) completedCount() (n int) {
	for _, s := range c.copies {
		if s.State.Outcome() == ebs.SnapshotDone {
			n++
		}
	}
	return n
}

// advance shows the progress, and ends a run without any.
func (c *copier) advance() error {
	var moved int64
	for _, p := range c.result.Plan.Copies {
		switch s, there := c.copies[p.ID]; {
		case !there:
		case s.State.Outcome() == ebs.SnapshotDone:
			moved += p.Bytes
		default:
			moved += p.Bytes / 100 * int64(min(s.Progress, 99))
		}
	}
	if moved != c.progress {
		c.progress, c.moved = moved, time.Now()
		c.scope.Reached(moved >> 20)
	}
	if time.Since(c.moved) > c.opts.Stuck {
		return failure.New(failure.Limited, "copy snapshots", string(c.opts.Backup),
			"no progress for %s", c.opts.Stuck).
			WithHint("the same command resumes the copy")
	}
	return nil
}

// ask asks for the copies that may begin.
func (c *copier) ask(ctx context.Context) error {
	running, done := map[sourceID]bool{}, map[sourceID]bool{}
	for source := range c.awaited {
		running[source] = true
	}
	for source, s := range c.copies {
		if s.State.Outcome() == ebs.SnapshotDone {
			done[source] = true
		} else {
			running[source] = true
		}
	}
	next := c.result.Plan.Next(running, done, copyplan.Slots)
	if len(next) == 0 {
		return nil
	}
	ids := make([]sourceID, len(next))
	for i, p := range next {
		ids[i] = p.ID
	}
	if err := c.scope.Intent(ctx, journal.IntentCopySnapshots, ids); err != nil {
		return err
	}
	var mu sync.Mutex
	return parallel.Each(ctx, copyplan.Slots, ids, func(ctx context.Context, _ int, source sourceID) error {
		bounded, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		id, err := c.Target.CopySnapshot(bounded, c.request(c.byID[source]))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			c.accepted(source, id)
		case ebs.MayHaveHappened(err):
		case failure.Transient(err) && ctx.Err() == nil: // nothing happened
			c.retryLater("begin a copy", err)
			return nil
		case failure.Is(err, failure.NotFound):
			return failure.New(failure.Unready, "copy snapshot", string(source), "%w", err).
				WithHint("unless it was deleted, share it with account %s: the same command then resumes the copy",
					c.found.account)
		default:
			return failure.Annotate(err, "copy snapshot", string(source))
		}
		c.awaited[source] = time.Now().Add(c.opts.Visibility)
		if err != nil && ctx.Err() != nil {
			return failure.Annotate(err, "copy snapshot", string(source))
		}
		return nil
	})
}

// accepted keeps which copy EC2 makes, also for later runs, to which EC2 does not show one that was deleted.
func (c *copier) accepted(source, id sourceID) {
	if c.expects[source] != id {
		c.expects[source] = id
		c.scope.Result(journal.ResultCopy, c.copied(source, id))
	}
}

// completes keeps that a copy is completed, for the plans of later runs: from then on it is the one of its volume that
// EC2 goes by, even if this run does not come to its end and gc deletes it.
func (c *copier) completes(source sourceID) {
	s := c.copies[source]
	if s.State.Outcome() == ebs.SnapshotDone && c.shown[source] != s.ID {
		c.shown[source] = s.ID
		c.scope.Result(journal.ResultCopied, c.copied(source, s.ID))
	}
}

func (c *copier) copied(source, id sourceID) journal.CopiedSnapshot {
	return journal.CopiedSnapshot{
		Snapshot: source, Copy: id, Volume: c.byID[source].Volume, Over: c.copyOf().Over(),
	}
}

// request asks for the copy of a snapshot.
func (r *run) request(of manifest.Snapshot) ebs.CopyRequest {
	tags := ebs.Tags{
		ebs.TagRun: string(r.opts.Run), ebs.TagBackup: string(r.opts.Backup),
		ebs.TagCluster: r.opts.Cluster.String(),
		ebs.TagStorage: r.runner.StorageID(), ebs.TagStore: of.Store.String(),
		ebs.TagEpoch:                      ebs.EpochTag(r.runner.Fence().Epoch()),
		ebs.TagVolumeOf + string(of.Role): string(of.Volume),
	}
	if over := r.copyOf().Over(); over != "" {
		tags[ebs.TagCopiedOver] = over
	}
	return ebs.CopyRequest{
		Snapshot: of.ID, Region: r.found.manifest.Region, KMSKey: r.opts.KMSKey, Within: r.result.Plan.Each, Tags: tags,
	}
}
