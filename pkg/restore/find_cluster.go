package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// findCluster connects to a cluster that a restore left in recovery mode, and determines its state. A serving cluster
// is refused, as a flashback would remove what was written to it since the backup, unless the run that last resolved it
// has failed since: only the end of that run is missing.
func (r *run) findCluster(ctx context.Context, s *phase.Scope) error {
	if err := r.checkTolerated(); err != nil {
		return err
	}
	tc, err := r.target.cluster(ctx)
	if err != nil {
		return err
	}
	if err := r.pd.connect(ctx, tc.PDAddresses); err != nil {
		return err
	}
	marked, err := r.pd.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", r.opts.Target.String())
	}
	resolved, err := r.wasResolved(ctx)
	if err == nil && !resolved && !tc.RecoveryMode {
		resolved, err = r.leftBefore(ctx)
	}
	if err != nil {
		return err
	}
	recovering := tc.RecoveryMode && marked
	r.data.found(resolved && !recovering) // since they restarted, recovering stores may have had no request to lead
	switch {
	case recovering:
	case resolved:
		s.Note("the data of %s are at the backup ts already: the end of the restore is what is missing", r.opts.Target)
		return nil
	case !tc.RecoveryMode:
		reason := fmt.Sprintf("it is not in recovery mode: resolving would undo every write since backup %s",
			r.opts.Backup)
		if done, text := r.target.restoredBy(ctx); done != nil {
			reason += "; " + text
		}
		return failure.New(failure.Conflict, "resolve", r.opts.Target.String(), "%s", reason).
			WithHint("name a cluster that a restore has left in recovery mode, or restore into a new one: tisnap "+
				"restore %s --to CLUSTER", r.opts.Backup)
	default:
		return failure.New(failure.Unready, "resolve", r.opts.Target.String(),
			"PD is not marked recovering, so its stores may have elected leaders by themselves, and no run is known "+
				"to have resolved the data").
			WithHint("restore the backup into a new cluster: tisnap restore %s --to CLUSTER", r.opts.Backup)
	}
	return r.target.checkOrigin(ctx, s)
}

// checkTolerated refuses stores that are not in the backup.
func (r *run) checkTolerated() error {
	var ids []cluster.StoreID
	for _, st := range r.backup.Source.Stores {
		ids = append(ids, st.ID)
	}
	for _, id := range r.opts.TolerateStores {
		if !slices.Contains(ids, id) {
			return failure.New(failure.Usage, "read --tolerate-store", id.String(), "backup %s has no store %s",
				r.opts.Backup, id).
				WithHint("its stores are %v", ids)
		}
	}
	return nil
}

// wasResolved reports whether an earlier run has flashed back this very cluster's whole key space, or an earlier
// process of this run has even taken it out of recovery mode.
func (r *run) wasResolved(ctx context.Context) (bool, error) {
	id, err := r.pd.ClusterID(ctx)
	if err != nil {
		return false, failure.Annotate(err, "read cluster id", r.opts.Target.String())
	}
	if r.earlier.HasLeft(id) {
		return true, nil
	}
	p, ok, err := resolve.NewProgressFile(r.Store, r.opts.Target, r.opts.Backup).Load(ctx)
	if err != nil || !ok {
		return false, err
	}
	return p.Done(id, r.backup.BackupTS), nil
}

// checkOrigin refuses volumes that the storage knows to be of another backup: the stores have the same ids, and a
// flashback to an older ts would lose what was written between the two.
func (t *target) checkOrigin(ctx context.Context, s *phase.Scope) error {
	pods, err := t.kube.TiKVPods(ctx, t.opts.Target)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return failure.New(failure.Unready, "resolve", t.opts.Target.String(),
			"it has no TiKV pod: its restore ended before its stores were started").
			WithHint("delete cluster %s, run `tisnap gc`, and restore again: tisnap restore %s --to CLUSTER",
				t.opts.Target, t.opts.Backup)
	}
	var runs []cluster.RunID
	unknown := 0
	for _, p := range pods {
		for _, m := range p.Mounts {
			switch run := madeBy(m); {
			case run == "":
				unknown++
			case !slices.Contains(runs, run):
				runs = append(runs, run)
			}
		}
	}
	for _, run := range runs {
		backup, err := t.backupOf(ctx, run)
		switch {
		case failure.Is(err, failure.NotFound):
			unknown++
		case err != nil:
			return err
		case backup != t.opts.Backup:
			return failure.New(failure.Conflict, "resolve", t.opts.Target.String(),
				"run %s made its volumes from backup %s, not from %s", run, backup, t.opts.Backup).
				WithHint("resolve it to its own backup: --backup %s", backup)
		}
	}
	if unknown > 0 || len(runs) == 0 {
		s.Note("which backup the volumes of %s were made from is not recorded here: %s is assumed", t.opts.Target,
			t.opts.Backup)
	}
	return nil
}

// madeBy returns the run that made a volume; "" if tisnap did not.
func madeBy(m kube.Mount) cluster.RunID {
	var object struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if json.Unmarshal(m.Object, &object) != nil {
		return ""
	}
	return cluster.RunID(object.Metadata.Annotations[runmark.Key])
}

// backupOf returns the backup of a restore run. It returns NotFound if this storage has no journal of the run.
func (t *target) backupOf(ctx context.Context, run cluster.RunID) (cluster.BackupID, error) {
	body, _, err := t.store.Get(ctx, manifest.JournalKey(run, 1))
	if err != nil {
		return "", failure.Annotate(err, "read the journal of run", string(run))
	}
	var first phase.Record
	if err := json.Unmarshal(body, &first); err != nil {
		return "", failure.Wrap(err, failure.Corrupt, "read the journal of run", string(run))
	}
	about, err := journal.ReadAbout(run, first)
	if err != nil || about.Operation != journal.Restore {
		return "", failure.New(failure.Corrupt, "read the journal of run", string(run), "it is not of a restore")
	}
	return about.Backup, nil
}
