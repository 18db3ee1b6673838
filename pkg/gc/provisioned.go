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

// Tags that the CSI driver sets on its volumes; the last two only if it knows its cluster's name.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md
const (
	tagMadeForNamespace = "kubernetes.io/created-for/pvc/namespace"
	tagMadeForClaim     = "kubernetes.io/created-for/pvc/name"
	tagMadeForPV        = "kubernetes.io/created-for/pv/name"
	tagInCluster        = "KubernetesCluster"
	tagOwnedBy          = "kubernetes.io/cluster/" // and the name
)

// unfinished returns the restores that may have left a target in Kubernetes.
func (w *world) unfinished() []*run {
	var out []*run
	for _, r := range w.runs {
		if r.unfinished() && (r.KubernetesUID != "" || r.Kubernetes != "") {
			out = append(out, r)
		}
	}
	return out
}

// readProvisioned lists what CSI drivers made in the namespaces of targets that never served. It precedes the
// Kubernetes query, because a volume exists before its persistent volume.
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

// orphans lists volumes made for claims of a removed restore target and no longer used in Kubernetes. All of them are
// kept: tags do not prove ownership.
func (j *decider) orphans() []Item {
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

// inKubernetes reports whether a persistent volume names the volume, or has the name of the persistent volume that it
// was made for.
func (j *decider) inKubernetes(v ebs.Volume) bool {
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

// madeDuring returns the last restore that had begun when the volume was made for a claim of its target, unless the
// claim may still have or get it; nil if there is none.
func (j *decider) madeDuring(v ebs.Volume, namespace string) *run {
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

func (j *decider) orphan(r *run, v ebs.Volume) Item {
	it := Item{
		Kind: KindVolume, ID: string(v.ID), Zone: v.Zone, Run: r.ID, Backup: r.Backup, Cluster: r.Cluster.String(),
	}
	it.SizeGiB, it.stray = v.Spec.SizeGiB, true
	if because, alive := j.busy(r); alive {
		return it.decided(ActionInUse, "%s", because)
	} else if because != "" {
		return it.decided(ActionKeep, "%s", because)
	}
	return it.decided(ActionKeep,
		"it was made at %s, after this restore began, for claim %s/%s, and no claim or persistent volume of this "+
			"Kubernetes cluster (%s) uses it; it has no run tag, and %s; if it is not needed, delete it by hand: "+
			"aws ec2 delete-volume --region %s --volume-id %s",
		v.CreatedAt.UTC().Format(time.RFC3339), r.Cluster.Namespace, v.Tags[tagMadeForClaim], j.kubernetes,
		madeIn(v.Tags), j.region, v.ID)
}

// madeIn describes the Kubernetes cluster by the tags. Journals do not record that name, so it decides nothing.
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
		return "its tags do not name its Kubernetes cluster: another one may use it"
	}
	return fmt.Sprintf("its tags name Kubernetes cluster %s", strings.Join(names, ", "))
}
