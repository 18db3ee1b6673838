package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// pollInterval is how often EC2 is asked for a set whose answer was lost.
const pollInterval = time.Second

// cutter requests the snapshots of one attempt.
type cutter struct {
	ebs interface {
		ebs.Snapshots
		ebs.Tagger
	}
	log  *zap.Logger
	opts Options
	tags ebs.Tags // of all snapshots of the attempt
	// current decides without any call whether the lock can still be this run's: a cut must not wait.
	current func() error
}

// cutTimes is how long a cut took, as far as it got.
type cutTimes struct {
	start      time.Time
	took, skew time.Duration
}

// cut requests one multi-volume set per instance, all concurrently, while h holds the cluster. It fails if a set fails
// or the hold breaks. Made has what was created, also on error.
func (c *cutter) cut(
	ctx context.Context, s *phase.Scope, h *hold.Hold, of *preflight.Source, made *sets,
) (times cutTimes, err error) {
	stores := of.Topology.Stores
	intents := make(map[cluster.StoreID]ebs.CutRequest, len(stores))
	for _, st := range stores {
		intents[st.ID] = c.request(st, of.VolumeTags)
	}
	ctx, cancel := h.Context(ctx)
	defer cancel()
	attached, err := c.prepare(ctx, s, h, stores, intents)
	if err != nil {
		return times, err
	}
	s.Expect(int64(len(stores)), "instances")
	start := time.Now()
	times.start = start.UTC()
	err = allOrFirst(ctx, stores, func(ctx context.Context, st cluster.Store) error {
		made.begin(st.ID)
		defer made.end(st.ID)
		req := intents[st.ID]
		req.Attached = attached
		if err := c.cutStore(ctx, st.ID, req, made); err != nil {
			return failure.Annotate(err, "snapshot volumes", fmt.Sprintf("store %s on %s", st.ID, st.Instance))
		}
		s.Advance(1)
		return nil
	})
	times.took = time.Since(start)
	if err != nil {
		return times, failure.Annotate(err, "snapshot volumes", c.opts.Cluster.String())
	}
	s.Result(journal.ResultSnapshots, ids(made.all()))
	first, last := span(made.all())
	times.skew = last.Sub(first)
	return times, made.checkStarts(c.opts.Cluster)
}

// allOrFirst calls f for all items concurrently. The first error, or the end of ctx, cancels the other calls and is
// returned: the set is lost, so the cluster need not be held any longer. If ctx ends, the error also has what a call
// was waiting for.
func allOrFirst[T any](ctx context.Context, items []T, f func(context.Context, T) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, len(items))
	err := parallel.Each(inner, 0, items, func(ctx context.Context, i int, item T) (err error) {
		defer func() {
			if errs[i] = err; err != nil {
				cancel(err)
			}
		}()
		defer failure.Catch(&err, "cut")
		return f(ctx, item)
	})
	if err == nil {
		return nil
	}
	cause := context.Cause(inner)
	waited := slices.IndexFunc(errs, func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) })
	if ctx.Err() != nil && waited >= 0 {
		return &failure.Error{
			Op: "wait for EC2", Kind: failure.KindOf(cause), Hint: failure.HintOf(cause),
			Err: fmt.Errorf("%w; until then: %w", cause, errs[waited]),
		}
	}
	return cause
}

// prepare writes the intents and describes the instances concurrently. Both end if the hold breaks.
func (c *cutter) prepare(
	ctx context.Context, s *phase.Scope, h *hold.Hold, stores []cluster.Store,
	intents map[cluster.StoreID]ebs.CutRequest,
) (attached ebs.Attachments, err error) {
	err = h.Under(ctx, func(ctx context.Context) error {
		return allOrFirst(ctx, []func(context.Context) error{
			func(ctx context.Context) error { return s.Intent(ctx, journal.IntentCreateSnapshots, intents) },
			func(ctx context.Context) (err error) { attached, err = c.describeInstances(ctx, stores); return err },
		}, func(ctx context.Context, job func(context.Context) error) error { return job(ctx) })
	})
	return attached, err
}

// describeInstances reads what is attached to all instances of the cut, by one paged call.
func (c *cutter) describeInstances(ctx context.Context, stores []cluster.Store) (ebs.Attachments, error) {
	instances := make([]cluster.InstanceID, 0, len(stores))
	for _, st := range stores {
		instances = append(instances, st.Instance)
	}
	found, err := c.ebs.Attachments(ctx, instances)
	return found, failure.Annotate(err, "describe instances", c.opts.Cluster.String())
}

// request is the request for a store's set; of has its volumes' own tags.
func (c *cutter) request(st cluster.Store, of map[cluster.VolumeID]ebs.Tags) ebs.CutRequest {
	tags := maps.Clone(c.tags)
	tags[ebs.TagStore] = st.ID.String()
	req := ebs.CutRequest{Instance: st.Instance}
	var sources []ebs.Tags
	for _, v := range st.Volumes {
		req.Volumes = append(req.Volumes, v.ID)
		tags[ebs.TagVolumeOf+string(v.Role)] = string(v.ID)
		sources = append(sources, of[v.ID])
	}
	var differing []string
	if req.Tags, differing = ebs.KeepTags(tags, c.opts.KeepTags, sources...); len(differing) > 0 {
		c.log.Warn("tags that differ between a store's volumes are not kept", zap.Stringer("store", st.ID),
			zap.Strings("keys", differing))
	}
	return req
}

// cutStore makes one set and records what it made, complete or not, for the undo. CreateSnapshots has no idempotency
// token: after a lost answer the set is found by its tags and never requested again, as that could cut twice. A set of
// an earlier attempt that EC2 shows late has another tag and is never mistaken for it.
func (c *cutter) cutStore(ctx context.Context, store cluster.StoreID, req ebs.CutRequest, made *sets) error {
	asks := fenced.With(ctx, func(context.Context) error { return c.current() })
	snaps, err := c.ebs.Cut(asks, req)
	made.put(store, snaps)
	if err == nil {
		return complete(req, snaps)
	}
	if !ebs.MayHaveHappened(err) {
		return err // refused or never sent: a search would only prolong the hold
	}
	made.noteAmbiguous(store, req, time.Now())
	if ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Visibility)
	defer cancel()
	tags := ebs.Tags{
		ebs.TagRun: string(c.opts.Run), ebs.TagStore: store.String(), ebs.TagAttempt: req.Tags[ebs.TagAttempt],
	}
	if wait.Until(ctx, wait.Every(pollInterval), func() (bool, error) {
		snaps, findErr := c.ebs.FindSnapshots(ctx, tags)
		if findErr != nil || complete(req, snaps) != nil {
			return false, nil
		}
		c.log.Warn("the answer of CreateSnapshots was lost, and the set was found by its tags")
		made.put(store, snaps)
		return true, nil
	}) != nil {
		return err
	}
	return nil
}

// complete checks that the set has exactly one snapshot per requested volume.
func complete(req ebs.CutRequest, snaps []ebs.Snapshot) error {
	count := map[cluster.VolumeID]int{}
	for _, s := range snaps {
		count[s.Volume]++
	}
	var mismatches []string
	for _, v := range req.Volumes {
		if count[v] != 1 {
			mismatches = append(mismatches, fmt.Sprintf("%d of %s", count[v], v))
		}
		delete(count, v)
	}
	for v, n := range count {
		mismatches = append(mismatches, fmt.Sprintf("%d of %s, which was not asked for", n, v))
	}
	if len(mismatches) > 0 {
		return failure.New(failure.Corrupt, "check snapshots", string(req.Instance), "%s",
			strings.Join(mismatches, ", "))
	}
	return nil
}

func ids(snaps []ebs.Snapshot) []cluster.SnapshotID {
	out := make([]cluster.SnapshotID, 0, len(snaps))
	for _, s := range snaps {
		out = append(out, s.ID)
	}
	return out
}
