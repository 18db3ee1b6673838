package gc

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
)

// AbortOptions are what the user chose.
type AbortOptions struct {
	Run cluster.RunID // of the restore
	// Rate is the number of deletions per second; zero is 1.
	Rate   float64
	DryRun bool
}

// Abort removes everything that a dead or failed restore left: its cluster, claims and persistent volumes, its EBS
// volumes, and the fast snapshot restores that it enabled. It returns a Conflict, and deletes nothing, while the run is
// alive, while another run has the cluster, or if the cluster may serve. It is safe to repeat.
func Abort(ctx context.Context, d Deps, o AbortOptions) (*Report, error) {
	w := &world{}
	if err := w.listRuns(ctx, d); err != nil {
		return &Report{Items: []Item{}, Missing: []Missing{}}, err
	}
	report := &Report{Items: []Item{}, Missing: []Missing{}}
	if !w.known[o.Run] {
		return report, failure.New(failure.NotFound, "abort restore", string(o.Run),
			"no run with that id has a journal in %s", d.Store.URL()).
			WithHint("use the run id that the restore printed, and the storage that it used")
	}
	r, err := loadRun(ctx, d, o.Run)
	switch {
	case err != nil:
		return report, err
	case r.Operation != journal.Restore:
		return report, failure.New(failure.Usage, "abort restore", string(o.Run), "it is a %s", r.Operation).
			WithHint("specify a restore; use tisnap gc for what a backup left, and tisnap release for its hold")
	case r.Served, r.Ended && r.Error == "":
		return report, failure.New(failure.Conflict, "abort restore", string(o.Run),
			"cluster %s served: it may hold newer data", r.Cluster).
			WithHint("delete the cluster by hand if it is not needed: kubectl -n %s delete tidbcluster %s (with TiDB "+
				"Operator 2.x clusters.core.pingcap.com)", r.Cluster.Namespace, r.Cluster.Name)
	}
	if err := sameKubernetes(ctx, d, r); err != nil {
		return report, err
	}
	if d.EBS == nil {
		if d.EBS, err = d.ec2Of(r); err != nil {
			return report, err
		}
	}
	report, err = Collect(ctx, d, Options{Kept: true, Clusters: true, Only: o.Run, Rate: o.Rate, DryRun: o.DryRun})
	if err != nil {
		return report, err
	}
	return report, report.refused(o.Run)
}

// ec2Of is EC2 as it is of interest to the removal of what a run left.
func (d Deps) ec2Of(r *run) (EBS, error) {
	if r.WithoutEC2() && !r.Effects {
		return noEC2{}, nil
	}
	return d.Connect()
}

// noEC2 is EC2 without anything: nothing is listed, so nothing else is asked.
type noEC2 struct{ EBS }

func (noEC2) Region() string                                              { return "" }
func (noEC2) AllSnapshots(context.Context) ([]ebs.Snapshot, error)        { return nil, nil }
func (noEC2) AllVolumes(context.Context) ([]ebs.Volume, error)            { return nil, nil }
func (noEC2) FindVolumes(context.Context, ebs.Tags) ([]ebs.Volume, error) { return nil, nil }

func (noEC2) FastRestores(context.Context, []cluster.SnapshotID) ([]ebs.FastRestore, error) {
	return nil, nil
}

// sameKubernetes returns a Conflict if the restore's target is in another Kubernetes cluster, whose leftovers would
// stay unnoticed.
func sameKubernetes(ctx context.Context, d Deps, r *run) error {
	if r.KubernetesUID == "" || d.Kube == nil {
		return nil // nothing to delete involves Kubernetes
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

// refused returns the error of an abort that had to leave something.
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
