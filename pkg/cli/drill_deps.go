package cli

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/tidb"
)

// sqlPort is TiDB's.
const sqlPort = 4000

// drillWork is a drill with what it needs.
type drillWork struct {
	drill.Deps
	app      *app
	conn     *connections
	kube     *kube.Client
	opts     drill.Options
	manifest *manifest.Manifest
	restorer restore.Deps
	restore  restore.Options
	pd       restore.PD // of the restored cluster, once it is up
	result   *restore.Result
	sqlUser  string
	log      *zap.Logger
}

// connectDrill connects to what every drill command needs.
func (a *app) connectDrill(ctx context.Context, c *connections, s *session) (*drillWork, error) {
	k, err := c.kube()
	if err != nil {
		return nil, err
	}
	store, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	e, err := c.ebs(ctx)
	if err != nil {
		return nil, err
	}
	c.withoutTLS() // the cage is what protects the copy: its parts have no certificates
	return &drillWork{
		Deps: drill.Deps{
			Store: store, Kube: k, Cages: k.Cages(), EBS: e, Sink: s.progress, Log: s.log, Remains: a.remains(),
		},
		app: a, conn: c, kube: k, log: s.log,
		restorer: restore.Deps{
			EBS: e, Kube: k, TiKV: c.tikv(), Store: store, Sink: s.progress, Log: s.log, Remains: a.remains(),
		},
	}, nil
}

func (a *app) drillDeps(
	ctx context.Context, cmd *cobra.Command, c *connections, s *session, f drillFlags, args []string,
) (*drillWork, error) {
	d, err := a.connectDrill(ctx, c, s)
	if err != nil {
		return nil, err
	}
	id, chosen, err := d.backupOf(ctx, cmd, f, args)
	if err != nil {
		return nil, err
	}
	key, err := readVerifyKey(f.verifyKey)
	if err != nil {
		return nil, err
	}
	if d.manifest, err = (catalog.Catalog{Store: d.Store, VerifyKey: key}).Load(ctx, id); err != nil {
		return nil, noBackup(ctx, d.Store, id, err)
	}
	f.checks.BackupTS = d.manifest.BackupTS
	d.opts = drill.Options{
		Tool: a.version.Version, Backup: id, Cluster: d.manifest.Source.Cluster,
		ClusterID: d.manifest.Source.ClusterID, Checks: f.checks, ChecksDigest: f.digest,
		From: []string{f.operatorNamespace}, Outside: f.outside, Lifetime: f.lifetime, RestoreWithin: f.restoreWithin,
		LockWait: f.lockWait.limit(), Chosen: chosen,
	}
	if d.kube.Inside() { // this pod connects to TiDB
		d.opts.From = append(d.opts.From, d.kube.Namespace())
	}
	if slices.Contains(d.opts.From, f.outside) {
		return nil, failure.New(failure.Usage, "drill", string(id),
			"pods in namespace %s reach the cage, so that it cannot be the one outside of it", f.outside).
			WithHint("choose another --outside-namespace")
	}
	if err := d.opts.Validate(); err != nil {
		return nil, err
	}
	d.sqlUser = f.sqlUser
	d.restore = restore.Options{
		Backup: id, VerifyKey: key, Tool: a.version.Version, Timeout: f.timeout, Kubernetes: d.kube.Server(),
		LockWait: f.lockWait.limit(),
	}
	if err := f.into(cmd, &d.restore); err != nil {
		return nil, err
	}
	about, err := d.opts.About(ctx, &d.Deps)
	if err != nil {
		return nil, err
	}
	if d.opts.Run, _, err = continued(ctx, d.Store, s.log, f.run, about); err != nil {
		return nil, err
	}
	d.opts.Owner = runlock.NewOwner(d.opts.Run, string(journal.Drill))
	d.Probes = d.kube.Probes(d.opts.Run, f.image)
	d.Plan, d.Restore, d.Open, d.HoldGC = d.plan, d.restoreInto, d.open, d.holdGC
	return d, nil
}

// uncaged is Kubernetes before the cage exists: what would be made in it cannot be tried yet. What an earlier process
// of the drill left in it is removed before the restore.
type uncaged struct{ kube.Restorer }

func (uncaged) Cluster(_ context.Context, name cluster.Name) (kube.TidbCluster, error) {
	return kube.TidbCluster{}, failure.New(failure.NotFound, "find cluster", name.String(), "its cage is to be made")
}

func (uncaged) Claims(context.Context, cluster.Name) ([]string, error) { return nil, nil }

func (uncaged) DryRun(context.Context, json.RawMessage, kube.Target, []kube.RestoredVolume, bool) error {
	return nil
}

// makePlan makes the checks of the restore.
func (d *drillWork) makePlan(ctx context.Context, target cluster.Name) (*restore.Plan, restore.Options, error) {
	deps, opts := d.restorer, d.restore
	deps.Kube, deps.Sink = uncaged{d.kube}, phase.Discard{}
	opts.Target, opts.Run = target, d.opts.Run
	plan, err := restore.MakePlan(ctx, deps, opts)
	return plan, opts, err
}

func (d *drillWork) plan(ctx context.Context, target cluster.Name) (drill.Planned, error) {
	plan, _, err := d.makePlan(ctx, target)
	if err != nil {
		return drill.Planned{}, err
	}
	out := drill.Planned{Stores: len(plan.Manifest.Source.Stores), Volumes: len(plan.Volumes)}
	for _, v := range plan.Volumes {
		out.StorageGiB += v.Spec.SizeGiB
	}
	return out, nil
}

// restoreInto restores the backup into the cage.
func (d *drillWork) restoreInto(ctx context.Context, to drill.Target) (drill.Restored, error) {
	deps, opts := d.restorer, d.restore
	opts.Target, opts.Run, opts.Tags = to.Cluster, to.Run, to.Tags
	opts.Owner = runlock.NewOwner(to.Run, string(journal.Drill))
	deps.OpenPD = func(ctx context.Context, addresses []string) (restore.PD, error) {
		client, err := d.conn.targetPD(ctx, d.kube, addresses, to.Cluster)
		d.pd = client
		return client, err
	}
	result, err := restore.Run(ctx, deps, opts)
	d.result = result
	return drill.Restored{Serves: result.Restored, Warnings: append(result.Warnings, result.Left...)}, err
}

// holdGC keeps what the backup has readable while it is checked: from the backup ts on or, if GC has passed that, from
// where it is, which is before the time at which the checks read. PD ignores a hold behind that.
func (d *drillWork) holdGC(ctx context.Context, _ cluster.Name, run cluster.RunID, ttl time.Duration) error {
	service := "tisnap-drill-" + string(run)
	for ts := d.manifest.BackupTS; ; {
		lowest, err := d.pd.HoldGC(ctx, service, ts, ttl)
		if err != nil || lowest <= ts {
			return err
		}
		ts = lowest
	}
}

func (d *drillWork) open(ctx context.Context, target cluster.Name) (drill.Database, error) {
	found, err := d.kube.Cluster(ctx, target)
	if err != nil {
		return nil, err
	}
	return tidb.Open(ctx, tidb.Config{
		Address: net.JoinHostPort(found.SQL, strconv.Itoa(sqlPort)), User: d.sqlUser,
		Password: os.Getenv(sqlPasswordVariable), Reach: d.conn.dial,
	})
}

// pick chooses one of a cluster's sealed backups; a random one is that of the seed.
func (d *drillWork) pick(
	ctx context.Context, name cluster.Name, how string, seed uint64,
) (cluster.BackupID, error) {
	entries, err := catalog.Catalog{Store: d.Store}.List(ctx)
	if err != nil {
		return "", err
	}
	entries = slices.DeleteFunc(entries, func(e catalog.Entry) bool {
		return e.Cluster != name || e.State != catalog.StateSealed
	})
	if len(entries) == 0 {
		return "", failure.New(failure.NotFound, "pick backup", name.String(), "it has no sealed backup in %s",
			d.Store.URL()).WithHint("see `tisnap list`")
	}
	slices.SortFunc(entries, func(a, b catalog.Entry) int { return int(a.BackupTS.Time().Sub(b.BackupTS.Time())) })
	switch how {
	case pickRandom:
		return entries[rand.New(rand.NewPCG(seed, 0)).IntN(len(entries))].ID, nil
	case pickLatest:
		return entries[len(entries)-1].ID, nil
	}
	passed := map[cluster.BackupID]time.Time{}
	all, err := drills(ctx, d.Store)
	if err != nil {
		return "", err
	}
	for _, r := range all {
		if r.State == runs.Done && r.Last.After(passed[r.Backup]) {
			passed[r.Backup] = r.Last
		}
	}
	return slices.MinFunc(entries, func(a, b catalog.Entry) int {
		return passed[a.ID].Compare(passed[b.ID]) // the first of those that none has passed
	}).ID, nil
}

// cleanDead removes what dead drills of any cluster left. One that cannot be removed here is reported, and left.
func (d *drillWork) cleanDead(ctx context.Context) {
	dead, err := deadDrills(ctx, d.Store)
	if err != nil {
		d.app.warn(failure.Annotate(err, "find what earlier drills left", d.Store.URL()))
	}
	for _, r := range dead {
		if r.ID == d.opts.Run {
			continue
		}
		if _, err := d.clean(ctx, &r); err != nil && ctx.Err() == nil {
			d.app.warn(failure.Annotate(err, "remove what an earlier drill left", "run "+string(r.ID)))
		}
	}
}

// deadDrills lists the drills that seem to be dead, and may have left something.
func deadDrills(ctx context.Context, store objstore.Store) ([]runs.Run, error) {
	all, err := drills(ctx, store)
	return slices.DeleteFunc(all, func(r runs.Run) bool {
		return r.History == nil || !drill.MayHaveLeft(r.History) || r.State == runs.Running && !r.Silent
	}), err
}

// clean removes what a drill left.
func (d *drillWork) clean(ctx context.Context, r *runs.Run) (*drill.Result, error) {
	return drill.Clean(ctx, d.Deps, drill.Options{
		Run: r.ID, Owner: runlock.NewOwner(r.ID, "drill clean"), Tool: d.app.version.Version, Backup: r.Backup,
		Cluster: r.Cluster, ClusterID: r.About.ClusterID,
	})
}

var (
	_ drill.Cages = (*cage.Cages)(nil)
	_ drill.EBS   = (*ebs.Client)(nil)
)
