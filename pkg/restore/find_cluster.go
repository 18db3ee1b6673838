package restore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// findCluster connects to a cluster that a restore has left in recovery mode, and says how far it has come. One
// that serves is refused: a flashback would take back what was written to it since the backup.
func (t *task) findCluster(ctx context.Context, s *phase.Scope) error {
	if err := t.checkTolerated(); err != nil {
		return err
	}
	tc, err := t.Kube.Cluster(ctx, t.opts.Target)
	if err != nil {
		return err
	}
	if t.pd == nil {
		if t.pd, err = t.OpenPD(ctx, tc.PDAddresses); err != nil {
			return err
		}
	}
	marked, err := t.pd.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", t.opts.Target.String())
	}
	if t.resolved, err = t.wasResolved(ctx); err != nil {
		return err
	}
	switch {
	case tc.RecoveryMode && marked:
		t.resolved = false // the stores may have been asked to lead by nobody since they restarted
	case t.resolved:
		s.Note("the data of %s are at the backup ts already: the end of the restore is what is missing", t.opts.Target)
		return nil
	case !tc.RecoveryMode:
		return failure.New(failure.Conflict, "resolve", t.opts.Target.String(),
			"it is not in recovery mode: resolving would take back every write since backup %s", t.opts.Backup).
			WithHint("name a cluster that a restore has left in recovery mode, or restore into a new one: tisnap restore %s --to CLUSTER", t.opts.Backup)
	default:
		return failure.New(failure.Unready, "resolve", t.opts.Target.String(),
			"PD is not marked recovering, so its stores may have elected leaders of their own, and no run is known to have resolved the data").
			WithHint("restore the backup into a new cluster: tisnap restore %s --to CLUSTER", t.opts.Backup)
	}
	return t.checkOrigin(ctx, s)
}

// checkTolerated refuses stores that the backup does not have.
func (t *task) checkTolerated() error {
	var ids []cluster.StoreID
	for _, st := range t.manifest.Source.Stores {
		ids = append(ids, st.ID)
	}
	for _, id := range t.opts.TolerateStores {
		if !slices.Contains(ids, id) {
			return failure.New(failure.Usage, "resolve", t.opts.Target.String(), "backup %s has no store %s", t.opts.Backup, id).
				WithHint("its stores are %v", ids)
		}
	}
	return nil
}

// wasResolved reports whether an earlier run has flashed back the whole key space of this very cluster.
func (t *task) wasResolved(ctx context.Context) (bool, error) {
	id, err := t.pd.ClusterID(ctx)
	if err != nil {
		return false, failure.Annotate(err, "read cluster id", t.opts.Target.String())
	}
	p, ok, err := resolve.NewProgressFile(t.Store, t.opts.Target, t.opts.Backup).Load(ctx)
	if err != nil || !ok {
		return false, err
	}
	return p.Done(id, t.manifest.BackupTS), nil
}

// checkOrigin refuses volumes that the storage knows to be of another backup: its stores have the same ids, and
// a flashback to an older ts would lose what was written between the two.
func (t *task) checkOrigin(ctx context.Context, s *phase.Scope) error {
	pods, err := t.Kube.TiKVPods(ctx, t.opts.Target)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return failure.New(failure.Unready, "resolve", t.opts.Target.String(), "it has no TiKV pod: its restore ended before its stores were started").
			WithHint("delete TidbCluster %s, run `tisnap gc`, and restore again: tisnap restore %s --to CLUSTER", t.opts.Target, t.opts.Backup)
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
		s.Note("nothing here tells which backup the volumes of %s were made from: %s is taken for granted", t.opts.Target, t.opts.Backup)
	}
	return nil
}

// madeBy is the run that made a volume, or "" if tisnap did not.
func madeBy(m kube.Mount) cluster.RunID {
	var object struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if json.Unmarshal(m.Object, &object) != nil {
		return ""
	}
	return cluster.RunID(object.Metadata.Annotations[kube.RunKey])
}

// backupOf reads which backup a restore was of. It is NotFound if this storage has no journal of the run.
func (t *task) backupOf(ctx context.Context, run cluster.RunID) (cluster.BackupID, error) {
	body, _, err := t.Store.Get(ctx, manifest.JournalKey(run, 1))
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
