package gc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// What the CSI driver writes on a volume that it makes; the last two only where it knows the name of its cluster.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md
const (
	tagMadeForNamespace = "kubernetes.io/created-for/pvc/namespace"
	tagMadeForClaim     = "kubernetes.io/created-for/pvc/name"
	tagMadeForPV        = "kubernetes.io/created-for/pv/name"
	tagInCluster        = "KubernetesCluster"
	tagOwnedBy          = "kubernetes.io/cluster/" // and the name
)

// unfinished are the restores that may have left a target in Kubernetes.
func (w *world) unfinished() []*run {
	var out []*run
	for _, r := range w.runs {
		if r.unfinished() && (r.KubernetesUID != "" || r.Kubernetes != "") {
			out = append(out, r)
		}
	}
	return out
}

// readProvisioned lists what CSI drivers made in the namespaces of targets that never served. It comes before
// Kubernetes is asked: a volume is there earlier than its persistent volume.
func (w *world) readProvisioned(ctx context.Context, d Deps) error {
	w.provisioned = map[string][]ebs.Volume{}
	if d.Kube == nil {
		return nil
	}
	for _, r := range w.unfinished() {
		namespace := r.Cluster.Namespace
		if _, asked := w.provisioned[namespace]; asked {
			continue
		}
		found, err := d.EBS.FindVolumes(ctx, ebs.Tags{tagMadeForNamespace: namespace})
		if err != nil {
			return failure.Annotate(err, "find volumes made for namespace", namespace)
		}
		w.provisioned[namespace] = found
	}
	return nil
}

// orphans names the volumes that were made for claims of a restore's target that is gone, and that nothing in
// Kubernetes has any more. All of them stay: tags do not prove whose a volume is.
func (j *judge) orphans() []Item {
	var out []Item
	for namespace, volumes := range j.provisioned {
		for _, v := range volumes {
			if v.State != ebs.VolumeAvailable || v.Tags[ebs.TagRun] != "" || j.inKubernetes(v) {
				continue
			}
			if r := j.madeDuring(v, namespace); r != nil {
				out = append(out, j.orphan(r, v))
			}
		}
	}
	return out
}

// inKubernetes reports whether a persistent volume names the volume, or has the name of the one that it was made for.
func (j *judge) inKubernetes(v ebs.Volume) bool {
	if j.handles[v.ID] != "" {
		return true
	}
	for _, pv := range j.handles {
		if pv == v.Tags[tagMadeForPV] {
			return true
		}
	}
	return false
}

// madeDuring finds the last restore that had begun when the volume was made for a claim of its target, unless the claim
// may have it still, or get it; nil if there is none.
func (j *judge) madeDuring(v ebs.Volume, namespace string) *run {
	claim := v.Tags[tagMadeForClaim]
	var last *run
	for id, claims := range j.claims {
		r := j.runs[id]
		pv, claimed := claims[claim]
		switch {
		case v.Tags[tagMadeForNamespace] != namespace || r.Cluster.Namespace != namespace:
		case !operator1.MadeForPod(r.Cluster.Name).MatchString(claim):
		case claimed && (pv == "" || pv == v.Tags[tagMadeForPV]):
		case v.CreatedAt.Before(r.Began) || r.Region != "" && r.Region != j.region:
		case last == nil || last.Began.Before(r.Began):
			last = r
		}
	}
	return last
}

func (j *judge) orphan(r *run, v ebs.Volume) Item {
	it := Item{
		Kind: KindVolume, ID: string(v.ID), Zone: v.Zone, Run: r.ID, Backup: r.Backup, Cluster: r.Cluster.String(),
	}
	it.SizeGiB, it.stray = v.Spec.SizeGiB, true
	if because, alive := j.busy(r); alive {
		return it.verdict(ActionInUse, "%s", because)
	} else if because != "" {
		return it.verdict(ActionKeep, "%s", because)
	}
	return it.verdict(ActionKeep,
		"it was made at %s, after this restore began, for claim %s/%s, and neither a claim nor a persistent "+
			"volume of this Kubernetes cluster (%s) has it; it carries no run, and %s; if nobody needs it, delete it "+
			"by hand: "+
			"aws ec2 delete-volume --region %s --volume-id %s",
		v.CreatedAt.UTC().Format(time.RFC3339), r.Cluster.Namespace, v.Tags[tagMadeForClaim], j.kubernetes,
		madeIn(v.Tags), j.region, v.ID)
}

// madeIn says what the tags say of the Kubernetes cluster. No journal knows that name, so it does not decide.
func madeIn(tags ebs.Tags) string {
	var names []string
	for key, value := range tags {
		if name, ok := strings.CutPrefix(key, tagOwnedBy); ok {
			names = append(names, name)
		} else if key == tagInCluster {
			names = append(names, value)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "its tags do not say of which Kubernetes cluster it is: another one may have it"
	}
	return fmt.Sprintf("its tags say that it is of Kubernetes cluster %s", strings.Join(names, ", "))
}
