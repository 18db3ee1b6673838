package drill

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/phase"
)

const (
	// proveWithin bounds the proof: pods of the probe are started, and their image is pulled.
	proveWithin = 30 * time.Minute
	// What TiDB Operator makes besides the stores, with what is started twice for a while.
	extraPods, extraClaims, extraGiB = 16, 8, 1024
)

// makeCage makes the namespace that the restore goes to. Its name and that of the one outside, where probes are made
// later, are journalled first, and its UID after.
func (r *run) makeCage(ctx context.Context, s *phase.Scope) error {
	intended := journal.Cage{Namespace: cage.Name(r.opts.Run), Outside: r.opts.Outside}
	if err := s.Intent(ctx, journal.IntentCage, intended); err != nil {
		return err
	}
	r.made.cage, r.result.TearDown, r.result.Left = intended, Left, "its cage "+intended.Namespace
	planned := r.result.Planned
	made, err := r.Cages.Make(ctx, cage.Spec{
		Run: r.opts.Run, Storage: r.runner.StorageID(), Expires: r.expires(), From: r.opts.From,
		Pods: int64(2*planned.Stores + extraPods), Claims: int64(planned.Volumes + extraClaims),
		StorageGiB: planned.StorageGiB + extraGiB,
	})
	if err != nil {
		return err
	}
	r.made.cage.UID = made.UID
	s.Result(journal.ResultCage, r.made.cage)
	s.Note("the restored cluster will be in namespace %s, which expires at %s", made.Namespace,
		made.Expires.UTC().Format(time.RFC3339))
	return nil
}

func (r *run) expires() time.Time { return r.runner.Started().Add(r.opts.Lifetime) }

// proveCage proves that the network keeps to the cage's policies.
func (r *run) proveCage(ctx context.Context, _ *phase.Scope) error {
	return cage.Prove(ctx, r.Probes, cage.Cage{Namespace: r.made.cage.Namespace, UID: r.made.cage.UID}, r.opts.Outside)
}

// findCage finds the cage by its run, and refuses a namespace that took its place; nil if there is none.
func (r *run) findCage(ctx context.Context) (*cage.Cage, error) {
	all, err := r.Cages.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		c := &all[i]
		if c.Run != r.opts.Run || c.Storage != r.runner.StorageID() {
			continue
		}
		if r.made.cage.UID != "" && c.UID != r.made.cage.UID {
			return nil, failure.New(failure.Conflict, "find cage", c.Namespace,
				"it has UID %s, and the run made one with UID %s", c.UID, r.made.cage.UID).
				WithHint("kubectl get namespace %s -o yaml: whose is it?", c.Namespace)
		}
		return c, nil
	}
	return nil, nil
}

// target is the cluster to restore: the source's name, in the cage.
func (r *run) target() journal.DrillTarget {
	return journal.DrillTarget{
		Cluster: cluster.Name{Namespace: cage.Name(r.opts.Run), Name: r.opts.Cluster.Name},
	}
}
