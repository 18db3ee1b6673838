package backup

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/phase"
)

// preflight changes nothing and finds what could fail later.
func (r *run) preflight(ctx context.Context, s *phase.Scope) error {
	if err := r.source.setRules(ctx); err != nil {
		return err
	}
	if !r.runner.Began() { // or an earlier process of the run has taken it, or the claim finds out
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
	warning, err := r.source.checkTiFlash(s)
	if warning != "" {
		r.result.Warnings = append(r.result.Warnings, warning)
	}
	if err != nil {
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
	r.announce(s)
	return nil
}

// awaitPending waits, before anything is held, until EC2 takes another snapshot of every volume: the cut would wait for
// that while the cluster is held.
func (r *run) awaitPending(ctx context.Context, s *phase.Scope) error {
	if err := r.room().awaitShown(ctx, s, r.source.Source); err != nil {
		return err
	}
	return r.room().awaitDeleted(ctx, s, r.source.Source)
}

// claim takes the backup's id in the storage, and a prefix of TiDB Operator's as br does.
func (r *run) claim(ctx context.Context, _ *phase.Scope) error {
	return r.records.claim(ctx, r.runner.Started())
}

// readMarks notes where the regions' logs end, and waits until the resolved ts has passed the marks: only then does the
// hold begin. It is no part of the hold, and changes nothing. A backup that gets no marks is as good without them.
func (r *run) readMarks(ctx context.Context, s *phase.Scope) error {
	passed, err := r.marks.read(ctx, s, &r.source.Topology)
	r.ts.saw(passed) // from here on a resolved ts below this is one that went back
	return err
}

// awaitSteady returns when the cluster can be held again.
func (r *run) awaitSteady(ctx context.Context, s *phase.Scope) error {
	err := r.source.awaitSteady(ctx, s)
	r.ts.saw(r.source.resolved)
	return err
}

func (r *run) room() *room {
	return &room{ebs: r.EBS, store: r.Store, catalog: r.catalog, opts: r.opts, log: r.Log}
}

// cutter makes the snapshots of this attempt, and of this process of the run.
func (r *run) cutter() *cutter {
	tags := ebs.Tags{
		ebs.TagRun:     string(r.opts.Run),
		ebs.TagBackup:  string(r.opts.Backup),
		ebs.TagCluster: r.opts.Cluster.String(),
		ebs.TagAttempt: strconv.Itoa(r.result.Attempts),
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

// announce says how long the run should take.
func (r *run) announce(s *phase.Scope) {
	if r.Announce != nil {
		r.runner.Announce(s, func(earlier json.RawMessage) (json.RawMessage, string) {
			return r.Announce(r.source.Source, earlier)
		})
	}
}
