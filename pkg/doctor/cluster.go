package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// checkKubernetes reads the TidbCluster.
func (p *patient) checkKubernetes(_ context.Context, c Check) []Check {
	tc, err := p.cluster()
	switch {
	case p.purpose != Backup && p.purpose != All && failure.Is(err, failure.NotFound):
		return c.ok("the API server answers; there is no such cluster")
	case err != nil:
		return c.failed(err)
	}
	return c.ok("TiKV %s, %d replicas", tc.Version, tc.TiKVReplicas)
}

// checkRBAC asks for every permission by access review.
func (p *patient) checkRBAC(restore bool) func(context.Context, Check) []Check {
	return func(ctx context.Context, c Check) []Check {
		k, err := p.kube()
		if err != nil {
			return c.notMade(err)
		}
		missing, err := k.Missing(ctx, p.name.Namespace, restore)
		files := "manifests/rbac-backup.yaml"
		if restore {
			files = "manifests/rbac.yaml"
		}
		return c.granted(missing, err, files, "in namespace "+p.name.Namespace)
	}
}

// checkDrillRBAC asks the same for a drill, which makes its own namespace.
func (p *patient) checkDrillRBAC(ctx context.Context, c Check) []Check {
	k, err := p.kube()
	if err != nil {
		return c.notMade(err)
	}
	missing, err := k.MissingForDrill(ctx)
	return c.granted(missing, err, "manifests/rbac.yaml and rbac-drill.yaml", "in all namespaces")
}

// checkJobs asks for what a command that makes Jobs needs. Archives can be made and restored without.
func (p *patient) checkJobs(of kube.JobsPurpose) func(context.Context, Check) []Check {
	return func(ctx context.Context, c Check) []Check {
		k, err := p.kube()
		if err != nil {
			return c.notMade(err)
		}
		where := "in namespace " + k.Namespace()
		missing, err := k.MissingForJobs(ctx, k.Namespace(), of)
		if err != nil || len(missing) == 0 {
			return c.granted(missing, err, "", where)
		}
		fix := "grant them to this user " + where + ", as in manifests/kustomize/overlays/archive-workers"
		if of == kube.JobsFill {
			fix = "grant them to this user " + where + ", as in manifests/kustomize/overlays/archive-claims"
		}
		return c.as(Warn, fix, "only tisnap %s needs it: may not %s", c.Subject, strings.Join(missing, ", "))
	}
}

// granted is a check of permissions, which files of manifests/ grant.
func (c Check) granted(missing []string, err error, files, where string) []Check {
	if err != nil {
		return c.notMade(err)
	}
	if list := strings.Join(missing, ", "); list != "" {
		return c.as(Fail, "grant "+list+" to this user "+where+", as in "+files, "may not %s", list)
	}
	return c.ok("all permissions, %s", where)
}

// checkPD asks PD which cluster it is.
func (p *patient) checkPD(ctx context.Context, c Check) []Check {
	d, err := p.pd()
	if err != nil {
		return c.failed(err)
	}
	id, err := d.ClusterID(ctx)
	if err != nil {
		return c.failed(err)
	}
	return c.ok("answers; cluster id %d", id)
}

// stores lists the live stores.
func (p *patient) stores(ctx context.Context) (PD, []pd.Store, error) {
	d, err := p.pd()
	if err != nil {
		return nil, nil, err
	}
	stores, err := preflight.LiveStores(ctx, d, p.name)
	return d, stores, err
}

// checkTiKV calls every store, and looks for imports as a backup does.
func (p *patient) checkTiKV(ctx context.Context, c Check) []Check {
	d, live, err := p.stores(ctx)
	if err != nil {
		return c.outcomeOf(err)
	}
	stores := make([]cluster.Store, len(live))
	for i, s := range live {
		stores[i] = cluster.Store{ID: s.ID, Address: s.Address}
	}
	running, err := preflight.RunningImports(ctx, d, p.tikv(), stores)
	switch {
	case err != nil:
		return c.failed(err)
	case len(running) > 0:
		err := preflight.RefuseImports(p.name, running)
		return c.as(Warn, failure.HintOf(err), "%v", err)
	}
	return c.ok("%d stores answer, and no import runs", len(stores))
}

// checkSource matches stores, pods and volumes.
func (p *patient) checkSource(_ context.Context, c Check) []Check {
	src, err := p.source()
	if err != nil {
		return c.outcomeOf(err)
	}
	return c.ok("%d stores with %d volumes", len(src.Topology.Stores), len(src.Topology.VolumeIDs()))
}

// MaxLag is how far the resolved ts may lie behind, the default of a backup's --max-lag.
const MaxLag = 5 * time.Minute

// checkResolvedTS is that of a backup: it also finds the settings of TiKV and PD without which there is none.
func (p *patient) checkResolvedTS(ctx context.Context, c Check) []Check {
	d, err := p.pd()
	if err != nil {
		return c.notMade(err)
	}
	got, err := d.ResolvedTS(ctx)
	if err != nil {
		return c.notMade(err)
	}
	if err := preflight.CheckResolvedTS(ctx, d, p.name, got, preflight.TSRules{MaxLag: MaxLag}); err != nil {
		return c.outcomeOf(err)
	}
	return c.ok("%s", got.TS.Time().UTC().Format(time.RFC3339))
}

// checkEarlyApply reads the setting at each store's status port.
func (p *patient) checkEarlyApply(ctx context.Context, c Check) []Check {
	_, live, err := p.stores(ctx)
	if err != nil {
		return c.notMade(err)
	}
	stores := make([]earlyapply.Store, len(live))
	for i, s := range live {
		stores[i] = earlyapply.Store{ID: s.ID, Address: s.Address, StatusAddress: s.StatusAddress}
	}
	found := earlyapply.Read(ctx, p.tikv(), stores)
	for _, id := range found.Failed.Stores() {
		err := found.Failed[id]
		return c.as(Warn, failure.HintOf(err),
			"of %d stores it could not be read, and a backup could not turn it off: %v", len(found.Failed), err)
	}
	return c.ok("on in %d of %d stores; a backup turns it off for its cut", len(found.On), len(stores))
}
