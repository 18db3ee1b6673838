package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// visibility is how long EC2 may hide a snapshot that exists: longer than the 20 s that were seen.
const visibility = 30 * time.Second

// lookAgain is how often a set whose answer was lost is looked for.
const lookAgain = time.Second

// sets is what the cut has made so far, by store.
type sets struct {
	mu      sync.Mutex
	byStore map[cluster.StoreID][]ebs.Snapshot
}

func newSets() *sets { return &sets{byStore: map[cluster.StoreID][]ebs.Snapshot{}} }

func (s *sets) put(id cluster.StoreID, snaps []ebs.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byStore[id] = snaps
}

func (s *sets) all() []ebs.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ebs.Snapshot
	for _, snaps := range s.byStore {
		out = append(out, snaps...)
	}
	return out
}

// cut asks EC2 for one multi-volume set an instance, for all instances at the same time. It fails if one
// set fails or the hold breaks; what was made until then is deleted by the step's undo.
func (t *task) cut(ctx context.Context, s *phase.Scope) error {
	stores := t.source.Topology.Stores
	intents := make(map[cluster.StoreID]ebs.CutRequest, len(stores))
	for _, st := range stores {
		intents[st.ID] = t.request(st)
	}
	ctx, cancel := t.hold.Context(ctx)
	defer cancel()
	if err := s.Intent(ctx, "create-snapshots", intents); err != nil {
		return err
	}
	s.Expect(int64(len(stores)), "instances")
	start := time.Now()
	t.result.Hold.CutStart = start.UTC()
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for i, st := range stores {
		wg.Go(func() {
			snaps, err := t.cutStore(ctx, st, intents[st.ID])
			if err != nil {
				errs[i] = failure.Annotate(err, "snapshot volumes", fmt.Sprintf("store %s on %s", st.ID, st.Instance))
				cancel() // the set is lost: do not keep the cluster waiting for the others
				return
			}
			t.sets.put(st.ID, snaps)
			s.Advance(1)
		})
	}
	wg.Wait()
	t.result.Hold.Cut = time.Since(start)
	if err := firstCause(errs); err != nil {
		return err
	}
	s.Result("snapshots", ids(t.sets.all()))
	return t.setSkew()
}

// firstCause prefers an error that is not the echo of another store's.
func firstCause(errs []error) error {
	var echo error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if !errors.Is(err, context.Canceled) {
			return err
		}
		echo = err
	}
	return echo
}

func (t *task) request(st cluster.Store) ebs.CutRequest {
	tags := ebs.Tags{
		ebs.TagRun:     string(t.opts.Run),
		ebs.TagBackup:  string(t.opts.Backup),
		ebs.TagCluster: t.opts.Cluster.String(),
		ebs.TagStore:   st.ID.String(),
	}
	req := ebs.CutRequest{Instance: st.Instance, Tags: tags}
	for _, v := range st.Volumes {
		req.Volumes = append(req.Volumes, v.ID)
		tags[ebs.TagVolumeOf+string(v.Role)] = string(v.ID)
	}
	return req
}

// cutStore makes one set. CreateSnapshots has no idempotency token: after a lost answer the set is looked
// for by its tags and never asked for again, as that could cut twice.
func (t *task) cutStore(ctx context.Context, st cluster.Store, req ebs.CutRequest) ([]ebs.Snapshot, error) {
	snaps, err := t.EBS.Cut(ctx, req)
	if err == nil {
		return snaps, complete(req, snaps)
	}
	if k := failure.KindOf(err); (k != failure.Unknown && k != failure.Limited) || ctx.Err() != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, visibility)
	defer cancel()
	for {
		found, findErr := t.EBS.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(t.opts.Run), ebs.TagStore: st.ID.String()})
		if findErr == nil && complete(req, found) == nil {
			t.Log.Warn("the answer of CreateSnapshots was lost, and the set was found by its tags")
			return found, nil
		}
		if pause(ctx, lookAgain) != nil {
			return nil, err
		}
	}
}

// complete checks that the set holds exactly one snapshot of each volume wanted.
func complete(req ebs.CutRequest, snaps []ebs.Snapshot) error {
	count := map[cluster.VolumeID]int{}
	for _, s := range snaps {
		count[s.Volume]++
	}
	var wrong []string
	for _, v := range req.Volumes {
		if count[v] != 1 {
			wrong = append(wrong, fmt.Sprintf("%d of %s", count[v], v))
		}
		delete(count, v)
	}
	for v, n := range count {
		wrong = append(wrong, fmt.Sprintf("%d of %s, which was not asked for", n, v))
	}
	if len(wrong) > 0 {
		return failure.New(failure.Corrupt, "check snapshots", string(req.Instance), "%s", strings.Join(wrong, ", "))
	}
	return nil
}

// setSkew notes how far apart the snapshots started by EC2's own clock.
func (t *task) setSkew() error {
	var first, last time.Time
	for _, snap := range t.sets.all() {
		if first.IsZero() || snap.StartedAt.Before(first) {
			first = snap.StartedAt
		}
		if snap.StartedAt.After(last) {
			last = snap.StartedAt
		}
	}
	t.result.Hold.Skew = last.Sub(first)
	return nil
}

// deleteSnapshots deletes every snapshot that carries the run's tag and every one that the run was told of.
func (t *task) deleteSnapshots(ctx context.Context, s *phase.Scope) error {
	if err := t.unsealed(ctx); err != nil {
		return err
	}
	doomed := map[cluster.SnapshotID]bool{}
	for _, snap := range t.sets.all() {
		doomed[snap.ID] = true
	}
	found, err := t.EBS.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(t.opts.Run)})
	if err != nil {
		return t.leftover(doomed, err)
	}
	for _, snap := range found {
		doomed[snap.ID] = true
	}
	s.Expect(int64(len(doomed)), "snapshots")
	for id := range doomed {
		if err := t.EBS.DeleteSnapshot(ctx, id); err != nil {
			return t.leftover(doomed, err)
		}
		delete(doomed, id)
		s.Advance(1)
	}
	return nil
}

func (t *task) leftover(doomed map[cluster.SnapshotID]bool, err error) error {
	names := make([]string, 0, len(doomed))
	for id := range doomed {
		names = append(names, string(id))
	}
	return &failure.Error{
		Op: "delete snapshots", Target: "run " + string(t.opts.Run), Kind: failure.KindOf(err),
		Hint: "delete the snapshots tagged " + ebs.TagRun + "=" + string(t.opts.Run) + " by hand",
		Err:  fmt.Errorf("%d may be left (%s): %w", len(names), strings.Join(names, " "), err),
	}
}

func ids(snaps []ebs.Snapshot) []cluster.SnapshotID {
	out := make([]cluster.SnapshotID, 0, len(snaps))
	for _, s := range snaps {
		out = append(out, s.ID)
	}
	return out
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
