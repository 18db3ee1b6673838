package brcompat

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
)

// described is a cluster as TiDB Operator's document and EC2 describe it: br's pod has no access to Kubernetes.
type described struct {
	file *volumeFile
	ebs  ebs.Volumes
	pd   []string
}

var _ kube.Clusters = (*described)(nil)

// Cluster implements kube.Clusters.
func (d *described) Cluster(context.Context, cluster.Name) (kube.TidbCluster, error) {
	tc := kube.TidbCluster{
		Name: d.file.name, PDReplicas: d.file.PD.Replicas, TiDBReplicas: d.file.TiDB.Replicas,
		TiKVReplicas: len(d.file.TiKV.Stores),
		PDAddresses:  d.pd, Stores: map[cluster.StoreID]string{}, Elsewhere: d.file.elsewhere,
		Object: d.file.Kubernetes.TidbCluster,
	}
	pods, err := d.pods()
	for id, pod := range pods {
		tc.Stores[id] = pod.Name
	}
	return tc, err
}

// TiKVPods implements kube.Clusters: the document's stores, each on the instance that its volumes are attached to.
func (d *described) TiKVPods(ctx context.Context, _ cluster.Name) ([]kube.Pod, error) {
	pods, err := d.pods()
	if err != nil {
		return nil, err
	}
	var ids []cluster.VolumeID
	for _, s := range d.file.TiKV.Stores {
		for _, v := range s.Volumes {
			ids = append(ids, cluster.VolumeID(v.ID))
		}
	}
	found, err := d.ebs.DescribeVolumes(ctx, ids)
	if err != nil {
		return nil, failure.Annotate(err, "describe volumes", d.file.name.String())
	}
	attached := map[cluster.VolumeID]ebs.Volume{}
	for _, v := range found {
		attached[v.ID] = v
	}
	out := make([]kube.Pod, 0, len(pods))
	for _, s := range d.file.TiKV.Stores {
		pod := pods[cluster.StoreID(s.ID)]
		first := attached[pod.Mounts[0].Volume] // preflight checks that the others are on the same instance
		if first.Instance == "" {
			return nil, failure.New(failure.Unready, "find the instance of store "+pod.Name,
				string(pod.Mounts[0].Volume), "the volume is not attached, or unknown to EC2").
				WithHint("check that the store is running, and that --s3.region and the credentials match the " +
					"cluster's account")
		}
		pod.Instance, pod.Zone, pod.Node = first.Instance, first.Zone, string(first.Instance)
		out = append(out, pod)
	}
	return out, nil
}

// pods returns the stores' pods, as far as the document describes them.
func (d *described) pods() (map[cluster.StoreID]kube.Pod, error) {
	bound, err := d.file.boundVolumes()
	if err != nil {
		return nil, err
	}
	pods := map[cluster.StoreID]kube.Pod{}
	for _, s := range d.file.TiKV.Stores {
		pod := kube.Pod{Name: "store-" + strconv.FormatUint(s.ID, 10), Ordinal: -1, Ready: true}
		for _, v := range s.Volumes {
			mount := kube.Mount{Role: cluster.Role(v.Role), MountPath: v.MountPath, Volume: cluster.VolumeID(v.ID)}
			if pv, ok := bound[v.ID]; ok {
				mount.PV, mount.PVC, mount.Object = pv.Metadata.Name, pv.Spec.ClaimRef.Name, pv.raw
				mount.Claim = d.claim(mount.PVC)
				pod.Name, pod.Ordinal = podName(pv, pod)
			}
			pod.Mounts = append(pod.Mounts, mount)
		}
		pods[cluster.StoreID(s.ID)] = pod
	}
	return pods, nil
}

// podName returns the persistent volume's pod and its ordinal.
func podName(pv boundVolume, unknown kube.Pod) (name string, ordinal int) {
	name = pv.Metadata.Annotations["tidb.pingcap.com/pod-name"]
	if name == "" {
		return unknown.Name, unknown.Ordinal
	}
	ordinal, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		ordinal = -1
	}
	return name, ordinal
}

func (d *described) claim(name string) json.RawMessage {
	for _, raw := range d.file.Kubernetes.PVCs {
		var claim struct{ Metadata struct{ Name string } }
		if json.Unmarshal(raw, &claim) == nil && claim.Metadata.Name == name {
			return raw
		}
	}
	return nil
}
