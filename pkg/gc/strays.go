package gc

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
)

// strays are what is there under the name of a target that is gone, and carries no run. The last of the runs that did not
// finish speaks for it.
type strays struct {
	run     cluster.RunID
	found   []kube.Stray
	volumes []ebs.Volume // that no persistent volume names any more
}

// The CSI driver's provisioner writes the claim that a volume is for on it (--extra-create-metadata).
const (
	tagClaimNamespace = "kubernetes.io/created-for/pvc/namespace"
	tagClaim          = "kubernetes.io/created-for/pvc/name"
)

// readUnclaimed finds the EBS volumes that were made for claims of targets that are gone, since their runs began, and that
// neither a run nor a persistent volume names: an earlier version took claims away while StatefulSets lived, which made them again.
func (w *world) readUnclaimed(ctx context.Context, d Deps) error {
	in := map[string][]cluster.Name{}
	for name := range w.strays {
		in[name.Namespace] = append(in[name.Namespace], name)
	}
	for namespace, names := range in {
		volumes, err := d.EBS.FindVolumes(ctx, ebs.Tags{tagClaimNamespace: namespace})
		if err != nil {
			return failure.Annotate(err, "find volumes made for claims", "namespace "+namespace)
		}
		for _, name := range names {
			s := w.strays[name]
			for _, v := range volumes {
				if w.unclaimed(name, w.runs[s.run], v) {
					s.volumes = append(s.volumes, v)
				}
			}
			w.strays[name] = s
		}
	}
	return nil
}

func (w *world) unclaimed(name cluster.Name, r *run, v ebs.Volume) bool {
	return v.Tags[tagClaimNamespace] == name.Namespace && kube.MadeForPod(name, v.Tags[tagClaim]) && v.Tags[ebs.TagRun] == "" &&
		v.State == ebs.VolumeAvailable && v.Instance == "" && v.CreatedAt.After(r.Began) && w.handles[v.ID] == ""
}

// strayed names all of them, and keeps them: whether a run's target left them is not certain.
func (j *judge) strayed() []Item {
	var out []Item
	for _, id := range slices.Sorted(maps.Keys(j.runs)) {
		r := j.runs[id]
		s := j.strays[r.Cluster]
		if s.run != id {
			continue
		}
		for _, f := range s.found {
			out = append(out, strayItems(r, f)...)
		}
		for _, v := range s.volumes {
			it := Item{
				Kind: KindVolume, ID: string(v.ID), Zone: v.Zone, SizeGiB: v.Spec.SizeGiB, Run: r.ID, Backup: r.Backup, Cluster: r.Cluster.String(), stray: true,
			}
			out = append(out, it.verdict(ActionKeep, "it was made for claim %s/%s, and nothing here names it: cluster %s is gone. A restore that failed may have "+
				"left it; one of the same name in another Kubernetes cluster may use it; if nobody needs it, delete it by hand: aws ec2 delete-volume --volume-id %s",
				r.Cluster.Namespace, v.Tags[tagClaim], r.Cluster, v.ID))
		}
	}
	return out
}

func strayItems(r *run, s kube.Stray) []Item {
	reason := fmt.Sprintf("cluster %s is gone and it carries no run: a restore that failed may have left it, or somebody else; if nobody needs it, delete it by hand:",
		r.Cluster)
	it := Item{Run: r.ID, Backup: r.Backup, Cluster: r.Cluster.String(), stray: true}
	var out []Item
	if s.Claim != "" {
		it.Kind, it.ID = KindClaim, r.Cluster.Namespace+"/"+s.Claim
		out = append(out, it.verdict(ActionKeep, "%s kubectl -n %s delete pvc %s", reason, r.Cluster.Namespace, s.Claim))
	}
	if s.Volume != "" {
		it.Kind, it.ID = KindPV, s.Volume
		out = append(out, it.verdict(ActionKeep, "%s kubectl delete pv %s, and then volume %s", reason, s.Volume, s.Handle))
	}
	return out
}
