package backup

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/phase"
)

// preflight finds what could fail later. It changes nothing.
func (r *run) preflight(ctx context.Context, s *phase.Scope) error {
	if err := r.source.setRules(ctx); err != nil {
		return err
	}
	if !r.runner.Began() { // else an earlier process of the run may have reserved it, which the claim finds out
		if err := r.source.checkFree(ctx, r.catalog); err != nil {
			return err
		}
	}
	if err := r.source.newest(ctx, s, r.catalog); err != nil {
		return err
	}
	if err := r.source.describe(ctx, s); err != nil {
		return err
	}
	r.ts.saw(r.source.resolved)
	if err := r.source.checkKeys(ctx, s); err != nil {
		return err
	}
	if err := r.source.checkTiFlash(s); err != nil {
		return err
	}
	if err := r.source.checkImports(ctx, s); err != nil {
		return err
	}
	if err := r.holder.checkForeign(ctx); err != nil {
		return err
	}
	if err := r.source.readVersions(ctx); err != nil {
		return err
	}
	r.expectDuration(s)
	return nil
}

// awaitPending waits, before the hold, until EC2 accepts another snapshot of every volume: otherwise the cut would wait
// while the cluster is held.
func (r *run) awaitPending(ctx context.Context, s *phase.Scope) error {
	if err := r.room().awaitShown(ctx, s, r.source.Source); err != nil {
		return err
	}
	return r.room().awaitDeleted(ctx, s, r.source.Source)
}

// claim reserves the backup's id in the storage, and locks a prefix of TiDB Operator's as br does.
func (r *run) claim(ctx context.Context, _ *phase.Scope) error {
	return r.records.claim(ctx, r.runner.Started())
}

// readMarks reads where the regions' logs end, and waits until the resolved ts has passed the marks, before the hold.
// It changes nothing. Marks are optional.
func (r *run) readMarks(ctx context.Context, s *phase.Scope) error {
	passed, err := r.marks.read(ctx, s, &r.source.Topology)
	r.ts.saw(passed) // a resolved ts below this has gone back
	return err
}

// awaitSteady waits until the cluster can be held again.
func (r *run) awaitSteady(ctx context.Context, s *phase.Scope) error {
	err := r.source.awaitSteady(ctx, s)
	r.ts.saw(r.source.resolved)
	return err
}

func (r *run) room() *room {
	return &room{ebs: r.EBS, store: r.Store, catalog: r.catalog, opts: r.opts, log: r.Log}
}

// cutter makes the snapshots of this process's attempt.
func (r *run) cutter() *cutter {
	tags := ebs.Tags{
		ebs.TagRun:     string(r.opts.Run),
		ebs.TagBackup:  string(r.opts.Backup),
		ebs.TagCluster: r.opts.Cluster.String(),
		ebs.TagAttempt: strconv.Itoa(r.at.number),
		ebs.TagEpoch:   ebs.EpochTag(r.runner.Fence().Epoch()),
	}
	if r.runner.StorageID() != "" {
		tags[ebs.TagStorage] = r.runner.StorageID()
	}
	return &cutter{ebs: r.EBS, log: r.Log, opts: r.opts, tags: tags, current: r.runner.Fence().Current}
}

func (r *run) remover() *remover {
	return &remover{ebs: r.EBS, storage: r.Store, opts: r.opts, epoch: r.runner.Fence().Epoch()}
}

// expectDuration shows how long the run should take.
func (r *run) expectDuration(s *phase.Scope) {
	if r.ExpectDuration != nil {
		r.runner.ExpectDuration(s, func(earlier json.RawMessage) (json.RawMessage, string) {
			return r.ExpectDuration(r.source.Source, earlier)
		})
	}
}
