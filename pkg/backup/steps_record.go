package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// adoptProof continues with the cut that an earlier process has proven.
func (r *run) adoptProof(ctx context.Context, s *phase.Scope) error {
	p := &r.at.proof
	if p.Source == nil || p.BackupTS == 0 || len(p.Sets) == 0 {
		return failure.New(failure.Corrupt, "resume backup", string(r.opts.Backup),
			"its journal has the proof of the cut, but not what was cut").
			WithHint("undo it: tisnap runs abort %s", r.opts.Run)
	}
	r.source.adopt(p.Source)
	r.at.adopt()
	retag(ctx, s, r.EBS, r.at.sets.all(), r.runner.Fence().Epoch())
	r.marks.adopt(ctx, s, p.Marks, p.Regions)
	r.at.note(r.Remains, r.remover().how())
	r.expectDuration(s)
	s.Note("the cut at backup ts %s is proven: the cluster is not held again", r.at.backupTS)
	return nil
}

// record writes the manifest, unsealed. The highest timestamp and id are read after the cut, so that they bound
// everything in the snapshots.
func (r *run) record(ctx context.Context, s *phase.Scope) error {
	if err := r.at.proof.check("record backup", r.opts.Backup, r.at.backupTS); err != nil {
		return err
	}
	if r.runner.Began() {
		if err := r.records.findRecorded(ctx, r.at.backupTS); err != nil {
			return err
		}
	}
	if r.records.manifest == nil { // else the step is repeated: what is stored cannot be replaced
		m, err := r.records.draft(ctx, s, &r.at.proof, r.at.sets.snapshots(r.source.Topology.Stores))
		if err != nil {
			return err
		}
		if m.Marks, err = r.marks.store(ctx, s); err != nil {
			return err
		}
		r.records.drafted(m)
	}
	return r.records.put(ctx, r.source.clusterID) // br's documents may be missing
}

// forget removes a failed run's manifest, so that nothing names deleted snapshots.
func (r *run) forget(ctx context.Context, _ *phase.Scope) error {
	return r.records.forget(ctx, r.at.backupTS)
}

// adoptManifest reads the manifest that an earlier process recorded.
func (r *run) adoptManifest(ctx context.Context, _ *phase.Scope) error {
	return r.records.adopt(ctx, r.source.clusterID)
}

// wait waits until all snapshots are completed. Only a set without progress for Options.Stuck fails, as EBS promises no
// time. One snapshot in error fails the set, as in EC2.
func (r *run) wait(ctx context.Context, s *phase.Scope) error {
	c := completion{ebs: r.EBS, opts: r.opts}
	got, err := c.await(ctx, s, ids(r.at.sets.all()), func(found []ebs.Snapshot) {
		r.cutter().checkTags(ctx, s, r.source.Source, found)
	})
	if err == nil {
		r.at.completed(got)
	}
	return err
}

// seal checks once more that all of the manifest's snapshots exist and are completed, and seals the stored manifest.
// From then on the backup can be restored and its snapshots are kept.
func (r *run) seal(ctx context.Context, _ *phase.Scope) error {
	if err := r.records.seal(ctx, &r.at.proof, r.at.sizes.all); err != nil {
		return err
	}
	r.Remains.Clear(remainsSnapshots)
	return nil
}
