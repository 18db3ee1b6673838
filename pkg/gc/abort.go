package gc

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
)

// AbortOptions are what the user chose.
type AbortOptions struct {
	Run cluster.RunID // of the restore
	// Rate is how many deletions are asked for in a second; zero is 1.
	Rate   float64
	DryRun bool
}

// Abort takes away all that a restore which died or failed has left: its TidbCluster, claims and persistent volumes,
// its EBS volumes, and the fast snapshot restores that it enabled. It is Conflict, and deletes nothing, while the run
// is alive, while another run has the cluster, and if the cluster may serve. It may be run again.
func Abort(ctx context.Context, d Deps, o AbortOptions) (*Report, error) {
	w := &world{}
	if err := w.listRuns(ctx, d); err != nil {
		return &Report{Items: []Item{}, Missing: []Missing{}}, err
	}
	report := &Report{Items: []Item{}, Missing: []Missing{}}
	if !w.known[o.Run] {
		return report, failure.New(failure.NotFound, "abort restore", string(o.Run),
			"no run of that id has a journal in %s", d.Store.URL()).
			WithHint("name the run's id as the restore printed it, and the storage that it was given")
	}
	r, err := loadRun(ctx, d, o.Run)
	switch {
	case err != nil:
		return report, err
	case r.Operation != journal.Restore:
		return report, failure.New(failure.Usage, "abort restore", string(o.Run), "it is a %s", r.Operation).
			WithHint("name a restore; what a backup left goes with tisnap gc, what it holds with tisnap release")
	case r.Served, r.Ended && r.Error == "":
		return report, failure.New(failure.Conflict, "abort restore", string(o.Run),
			"cluster %s served: it may hold newer data", r.Cluster).
			WithHint("delete the cluster by hand if nobody needs it: kubectl delete tidbcluster")
	}
	if err := sameKubernetes(ctx, d, r); err != nil {
		return report, err
	}
	report, err = Collect(ctx, d, Options{Kept: true, Clusters: true, Only: o.Run, Rate: o.Rate, DryRun: o.DryRun})
	if err != nil {
		return report, err
	}
	return report, report.refused(o.Run)
}

// sameKubernetes is a Conflict if the restore's target is in another Kubernetes cluster: what it left there would stay,
// unseen.
func sameKubernetes(ctx context.Context, d Deps, r *run) error {
	if r.KubernetesUID == "" || d.Kube == nil {
		return nil // nothing is deleted that Kubernetes has to be asked for
	}
	k, err := d.Kube()
	if err != nil {
		return failure.Annotate(err, "connect to Kubernetes", r.Cluster.String())
	}
	uid, err := k.ClusterUID(ctx)
	if err != nil {
		return failure.Annotate(err, "ask Kubernetes which cluster it is", k.Server())
	}
	_, err = r.SameCluster(r.ID, &journal.About{Cluster: r.Cluster, Kubernetes: k.Server(), KubernetesUID: uid})
	return err
}

// refused is the error of an abort that had to leave something.
func (r *Report) refused(run cluster.RunID) error {
	for _, i := range r.Items {
		if i.stray && i.Kind == KindVolume { // it may be another cluster's, in another Kubernetes
			continue
		}
		if i.Action == ActionInUse || i.Action == ActionKeep {
			return failure.New(failure.Conflict, "abort restore", string(run), "%s %s stays: %s", i.Kind, i.ID,
				i.Reason)
		}
	}
	return nil
}
