package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// pollInterval is how often EC2 is asked for a set whose answer was lost.
const pollInterval = time.Second

// cut asks EC2 for one multi-volume set an instance, for all instances at the same time. It fails if one
// set fails or the hold breaks; what was made until then is deleted by the step's undo.
func (r *run) cut(ctx context.Context, s *phase.Scope) error {
	stores := r.source.Topology.Stores
	intents := make(map[cluster.StoreID]ebs.CutRequest, len(stores))
	for _, st := range stores {
		intents[st.ID] = r.request(st)
	}
	ctx, cancel := r.hold.Context(ctx)
	defer cancel()
	attached, err := r.prepareCut(ctx, s, intents)
	if err != nil {
		return err
	}
	s.Expect(int64(len(stores)), "instances")
	start := time.Now()
	r.result.Hold.CutStart = start.UTC()
	err = allOrFirst(ctx, stores, func(ctx context.Context, st cluster.Store) error {
		r.sets.begin(st.ID)
		defer r.sets.end(st.ID)
		req := intents[st.ID]
		req.Attached, req.Before = attached, r.fence.Current
		if err := r.cutStore(ctx, st, req); err != nil {
			return failure.Annotate(err, "snapshot volumes", fmt.Sprintf("store %s on %s", st.ID, st.Instance))
		}
		s.Advance(1)
		return nil
	})
	r.result.Hold.Cut = time.Since(start)
	if err != nil {
		return failure.Annotate(err, "snapshot volumes", r.opts.Cluster.String())
	}
	s.Result(journal.ResultSnapshots, ids(r.sets.all()))
	first, last := span(r.sets.all())
	r.result.Hold.Skew = last.Sub(first)
	if err := r.sets.checkStarts(r.opts.Cluster); err != nil {
		return err
	}
	r.nameCut(ctx, s)
	return nil
}

// nameLimit bounds the write of the document that names the cut's snapshots: the cluster is held meanwhile.
const nameLimit = 2 * time.Second

// nameCut says to TiDB Operator's deletion of the Backup which snapshots there are, from before they are proven to be a backup: its
// manager hands SIGTERM on to no backup, so that a Job that is deleted is killed. Only under another process's hold, as the Operator's
// Backups are made, which lasts longer by this one write. Without it gc finds the snapshots.
func (r *run) nameCut(ctx context.Context, s *phase.Scope) {
	if r.opts.ClusterMeta == nil || !r.opts.OtherHolds {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nameLimit)
	defer cancel()
	m := &manifest.Manifest{
		ID: r.opts.Backup, Run: r.opts.Run, Region: r.EBS.Region(), Source: r.source.Topology, Snapshots: r.snapshots(), ClusterMeta: r.opts.ClusterMeta,
	}
	if err := r.catalog.PutCutForBR(ctx, m); err != nil {
		s.Warn("if this process is killed before its cut is proven, a deletion of the Backup leaves the snapshots, and tisnap gc deletes them: %v", err)
	}
}

// allOrFirst calls f for all items at the same time. The first error, or the end of ctx, ends the other calls and
// is what is returned: the set is lost, and the cluster is not to be held for the rest of it. When ctx ends, the
// error says too what a call was waiting for until then.
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
			Op: "wait for EC2", Kind: failure.KindOf(cause), Hint: failure.HintOf(cause), Err: fmt.Errorf("%w; until then: %w", cause, errs[waited]),
		}
	}
	return cause
}

// prepareCut writes the intents and meanwhile describes the instances. A hold that breaks ends both.
func (r *run) prepareCut(ctx context.Context, s *phase.Scope, intents map[cluster.StoreID]ebs.CutRequest) (attached ebs.Attachments, err error) {
	err = r.hold.Under(ctx, func(ctx context.Context) error {
		return allOrFirst(ctx, []func(context.Context) error{
			func(ctx context.Context) error { return s.Intent(ctx, journal.IntentCreateSnapshots, intents) },
			func(ctx context.Context) (err error) { attached, err = r.describeInstances(ctx); return err },
		}, func(ctx context.Context, job func(context.Context) error) error { return job(ctx) })
	})
	return attached, err
}

// describeInstances reads what is attached to all instances of the cut, by one paged call for all of them.
func (r *run) describeInstances(ctx context.Context) (ebs.Attachments, error) {
	instances := make([]cluster.InstanceID, 0, len(r.source.Topology.Stores))
	for _, st := range r.source.Topology.Stores {
		instances = append(instances, st.Instance)
	}
	found, err := r.EBS.Attachments(ctx, instances)
	return found, failure.Annotate(err, "describe instances", r.opts.Cluster.String())
}

func (r *run) request(st cluster.Store) ebs.CutRequest {
	tags := ebs.Tags{
		ebs.TagRun:     string(r.opts.Run),
		ebs.TagBackup:  string(r.opts.Backup),
		ebs.TagCluster: r.opts.Cluster.String(),
		ebs.TagStore:   st.ID.String(),
		ebs.TagAttempt: strconv.Itoa(r.result.Attempts),
		ebs.TagEpoch:   ebs.EpochTag(r.fence.Epoch()),
	}
	if r.storageID != "" {
		tags[ebs.TagStorage] = r.storageID
	}
	req := ebs.CutRequest{Instance: st.Instance}
	var sources []ebs.Tags
	for _, v := range st.Volumes {
		req.Volumes = append(req.Volumes, v.ID)
		tags[ebs.TagVolumeOf+string(v.Role)] = string(v.ID)
		sources = append(sources, r.source.VolumeTags[v.ID])
	}
	var differing []string
	if req.Tags, differing = ebs.KeepTags(tags, r.opts.KeepTags, sources...); len(differing) > 0 {
		r.Log.Warn("tags that differ between a store's volumes are not kept", zap.Stringer("store", st.ID), zap.Strings("keys", differing))
	}
	return req
}

// cutStore makes one set and notes what it made, complete or not, for the undo. CreateSnapshots has no
// idempotency token: after a lost answer the set is found by its tags and never requested a second time, as that
// could cut twice. A set of an earlier attempt, which EC2 may show late, has another tag and is never taken for it.
func (r *run) cutStore(ctx context.Context, st cluster.Store, req ebs.CutRequest) error {
	snaps, err := r.EBS.Cut(ctx, req)
	r.sets.put(st.ID, snaps)
	if err == nil {
		return complete(req, snaps)
	}
	if !ebs.MayHaveHappened(err) {
		return err // refused or never sent: searching for a set would only make the hold longer
	}
	r.sets.noteAmbiguous(st.ID, req, time.Now())
	if ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Visibility)
	defer cancel()
	tags := ebs.Tags{ebs.TagRun: string(r.opts.Run), ebs.TagStore: st.ID.String(), ebs.TagAttempt: req.Tags[ebs.TagAttempt]}
	if wait.Until(ctx, wait.Every(pollInterval), func() (bool, error) {
		snaps, findErr := r.EBS.FindSnapshots(ctx, tags)
		if findErr != nil || complete(req, snaps) != nil {
			return false, nil
		}
		r.Log.Warn("the answer of CreateSnapshots was lost, and the set was found by its tags")
		r.sets.put(st.ID, snaps)
		return true, nil
	}) != nil {
		return err
	}
	return nil
}

// complete checks that the set holds exactly one snapshot of each volume wanted.
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
		return failure.New(failure.Corrupt, "check snapshots", string(req.Instance), "%s", strings.Join(mismatches, ", "))
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
