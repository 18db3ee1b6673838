package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// lookAgain is how often a set whose answer was lost is looked for.
const lookAgain = time.Second

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
	attached, err := t.ready(ctx, s, intents)
	if err != nil {
		return err
	}
	s.Expect(int64(len(stores)), "instances")
	start := time.Now()
	t.result.Hold.CutStart = start.UTC()
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for i, st := range stores {
		wg.Go(func() {
			begin := time.Now()
			req := intents[st.ID]
			req.Attached = attached
			err := t.catchCut(ctx, st, req)
			t.sets.time(st.ID, time.Since(begin))
			if err != nil {
				errs[i] = failure.Annotate(err, "snapshot volumes", fmt.Sprintf("store %s on %s", st.ID, st.Instance))
				cancel() // the set is lost: do not keep the cluster waiting for the others
				return
			}
			s.Advance(1)
		})
	}
	wg.Wait()
	t.result.Hold.Cut = time.Since(start)
	if err = firstCause(errs); errors.Is(err, context.Canceled) {
		return failure.Annotate(context.Cause(ctx), "snapshot volumes", t.opts.Cluster.String())
	} else if err != nil {
		return err
	}
	s.Result(journal.ResultSnapshots, ids(t.sets.all()))
	return t.setSkew()
}

// ready writes the intents and meanwhile looks at the instances. A hold that breaks ends both.
func (t *task) ready(ctx context.Context, s *phase.Scope, intents map[cluster.StoreID]ebs.CutRequest) (attached ebs.Attachments, err error) {
	err = t.hold.Under(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var lookErr error
		var looking sync.WaitGroup
		looking.Go(func() { attached, lookErr = t.lookAtInstances(ctx) })
		intentErr := s.Intent(ctx, journal.IntentCreateSnapshots, intents)
		if intentErr != nil {
			cancel()
		}
		looking.Wait()
		return cmp.Or(intentErr, lookErr)
	})
	return attached, err
}

// lookAtInstances reads what is attached to all instances of the cut, by one paged call for all of them.
func (t *task) lookAtInstances(ctx context.Context) (found ebs.Attachments, err error) {
	defer failure.Catch(&err, "describe instances")
	instances := make([]cluster.InstanceID, 0, len(t.source.Topology.Stores))
	for _, st := range t.source.Topology.Stores {
		instances = append(instances, st.Instance)
	}
	found, err = t.EBS.Attachments(ctx, instances)
	return found, failure.Annotate(err, "look at the instances", t.opts.Cluster.String())
}

// catchCut is cutStore in a goroutine of its own: a panic fails the cut, and what it made is deleted.
func (t *task) catchCut(ctx context.Context, st cluster.Store, req ebs.CutRequest) (err error) {
	defer failure.Catch(&err, "snapshot volumes")
	return t.cutStore(ctx, st, req)
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
	req := ebs.CutRequest{Instance: st.Instance}
	var sources []ebs.Tags
	for _, v := range st.Volumes {
		req.Volumes = append(req.Volumes, v.ID)
		tags[ebs.TagVolumeOf+string(v.Role)] = string(v.ID)
		sources = append(sources, t.source.VolumeTags[v.ID])
	}
	var differing []string
	if req.Tags, differing = ebs.KeepTags(tags, t.opts.KeepTags, sources...); len(differing) > 0 {
		t.Log.Warn("tags that differ between a store's volumes are not kept", zap.Stringer("store", st.ID), zap.Strings("keys", differing))
	}
	return req
}

// cutStore makes one set and notes what it made, complete or not, for the undo. CreateSnapshots has no
// idempotency token: after a lost answer the set is looked for by its tags and never asked for again, as that
// could cut twice.
func (t *task) cutStore(ctx context.Context, st cluster.Store, req ebs.CutRequest) error {
	snaps, err := t.EBS.Cut(ctx, req)
	t.sets.put(st.ID, snaps)
	if err == nil {
		return complete(req, snaps)
	}
	if !ebs.MayHaveHappened(err) {
		return err // refused or never sent: looking for a set would only make the hold longer
	}
	t.sets.doubt(st.ID, req, time.Now())
	if ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.Visibility)
	defer cancel()
	for {
		found, findErr := t.EBS.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(t.opts.Run), ebs.TagStore: st.ID.String()})
		found = slices.DeleteFunc(found, func(s ebs.Snapshot) bool { return t.discarded[s.ID] })
		if findErr == nil && complete(req, found) == nil {
			t.Log.Warn("the answer of CreateSnapshots was lost, and the set was found by its tags")
			t.sets.put(st.ID, found)
			return nil
		}
		if wait.For(ctx, lookAgain) != nil {
			return err
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

func ids(snaps []ebs.Snapshot) []cluster.SnapshotID {
	out := make([]cluster.SnapshotID, 0, len(snaps))
	for _, s := range snaps {
		out = append(out, s.ID)
	}
	return out
}
