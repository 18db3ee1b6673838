package backup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runner"
)

// about is the first journal record of a run with these options on the cluster with this id.
func (o *Options) about(clusterID uint64) journal.About {
	return journal.About{
		Operation: journal.Backup, Cluster: o.Cluster, Backup: o.Backup, Request: o.Request(), ClusterID: clusterID,
	}
}

func (r *run) about() journal.About { return r.opts.about(r.source.clusterID) }

// Request returns the options that determine the backup, apart from its name.
func (o *Options) Request() map[string]string {
	request := map[string]string{
		"tag": strings.Join(o.Tags, ","), "keep-tags": strings.Join(o.KeepTags, ","),
		"consistent-now": strconv.FormatBool(o.ConsistentNow), "tiflash": string(o.TiFlash),
		"sign-key": o.SignKey.ID(),
	}
	if o.EarlyApply != "" && o.EarlyApply != PreventEarlyApply { // older versions did not have the option
		request["early-apply"] = string(o.EarlyApply)
	}
	if o.ClusterMeta != nil {
		// In TiDB Operator's storage the document is unique to each Backup, so no other backup resumes it.
		request["clustermeta"], request["clustermeta-sha256"] = "true", fmt.Sprintf("%x", sha256.Sum256(o.ClusterMeta))
	}
	return request
}

// resumption is how the run is resumed.
func (r *run) resumption() *runner.Resumption {
	return &runner.Resumption{
		Adopt: r.adopt, StartOver: r.startOver, Reset: r.startAfresh,
		Learn: func(h *phase.History, was *journal.About) error {
			if err := sameCluster(r.opts.Run, h, was, r.about()); err != nil {
				return err
			}
			r.records.maySeal(h.Undoing() && h.Began(journal.StepSeal))
			r.paused(h)
			return nil
		},
	}
}

// startOver undoes the rest of a run that died while being undone, unless its backup is sealed and kept.
func (r *run) startOver(_ context.Context, h *phase.History) (string, error) {
	if !h.Undoing() {
		return "", nil
	}
	if h.Done(journal.StepSeal) {
		return "", failure.New(failure.Conflict, "resume run", string(r.opts.Run),
			"backup %s is sealed, and the run was being ended when its process died", r.opts.Backup).
			WithHint("the backup can be restored; take the next one without --run-id, and under another --name")
	}
	return "the run was being undone when its process died", nil
}

// startAfresh forgets the undone attempt, which is released and whose snapshots are deleted. The run keeps the backup's
// id, unless that can no longer be sealed.
func (r *run) startAfresh() error {
	if r.records.sealing {
		return failure.New(failure.Conflict, "resume run", string(r.opts.Run),
			"it is undone; backup %s may already be sealed, so its id cannot be reused", r.opts.Backup).
			WithHint("run the command again, under another --name if you chose one")
	}
	r.at = newAttempt(r.at.number)
	return nil
}

// paused finds out what earlier processes of the run paused and turned off.
func (r *run) paused(h *phase.History) {
	f := journal.ReadFacts(h.Records).Backup
	r.holder.learn(&f)
	r.early.learn(f.EarlyApply)
}

// adopt discards an attempt whose cut was not proven: its leases, and with them any proof, ended with its process. An
// attempt under another process's hold has nothing to release: that process may be alive.
func (r *run) adopt(ctx context.Context, s *phase.Scope, h *phase.History) error {
	f := journal.ReadFacts(h.Records).Backup
	r.at.follows(f.Attempts)
	if h.Done(journal.StepRelease) {
		if f.StillHeld && !h.Done(journal.StepReleaseAgain) {
			r.at.notReleased(errors.New("an earlier process of the run could not release it"))
		}
		return nil
	}
	if f.Attempts == 0 {
		return nil
	}
	s.Note("an earlier process's attempt ended before its cut was proven: releasing what it held and " +
		"deleting its snapshots")
	if len(f.Holds) > 0 {
		dead, err := r.holder.releaseLeftovers(ctx)
		if err != nil {
			return err
		}
		r.early.skip(s, dead)
	}
	return r.deleteMade(ctx, s, askedFor(f.Cuts))
}

// askedFor lists the sets that earlier processes may have requested and that EC2 may still hide. Those that were undone
// are all deleted, including hidden ones.
func askedFor(cuts []journal.Cut) *sets {
	made := newSets()
	for i := range cuts {
		var requests map[cluster.StoreID]ebs.CutRequest
		if cuts[i].Undone || json.Unmarshal(cuts[i].Requests, &requests) != nil {
			continue // found by their tags, once EC2 shows them
		}
		for id, req := range requests {
			made.noteAmbiguous(id, req, cuts[i].Asked)
		}
	}
	return made
}

// Abort undoes a run whose process died: it releases the cluster and deletes the snapshots. It returns a Conflict if
// the backup is sealed, or while the run is alive. Only the Options that identify the run are used.
func Abort(ctx context.Context, deps Deps, opts Options) error {
	opts.defaults()
	r := newRun(deps, opts)
	if err := r.source.identify(ctx); err != nil {
		return err
	}
	rule := r.resumption()
	rule.Abort = true
	rule.Learn = func(h *phase.History, was *journal.About) error {
		if err := sameCluster(r.opts.Run, h, was, r.about()); err != nil {
			return err
		}
		r.records.maySeal(h.Began(journal.StepSeal))
		r.paused(h)
		if h.Done(journal.StepSeal) {
			return failure.New(failure.Conflict, "abort run", string(opts.Run), "backup %s is sealed", opts.Backup).
				WithHint("continue the run, or delete the backup: tisnap delete %s", opts.Backup)
		}
		return nil
	}
	steps := slices.DeleteFunc(r.steps(), func(s phase.Step) bool { return s.ReadOnly })
	if _, err := r.runner.Execute(ctx, r.book(steps, rule)); err != nil {
		return err
	}
	_, err := r.records.free(ctx, func() error { return nil })
	return err
}
