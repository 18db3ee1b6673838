package kubetest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// ClusterOptions shape a TidbCluster. Zero values stand for one PD, three TiKV, one TiDB, 10 GiB, class
// "ebs-sc" and version v7.5.1.
type ClusterOptions struct {
	Name           cluster.Name
	PD, TiKV, TiDB int
	TiKVGroups     int // of Operator 2.x, 1 by default
	Version        string
	StorageClass   string
	SizeGiB        int64
	RaftLogVolume  bool // a second volume for raft-engine.dir
	WALVolume      bool // a volume for rocksdb.wal-dir
	RecoveryMode   bool
	TLS            bool // between the components: their pods need secrets
	// Join is the TidbCluster, of another Kubernetes cluster, whose PD the stores join; the zero value is none.
	Join cluster.Name
	// DeleteSlots are ordinals that the StatefulSet of TiKV leaves out.
	DeleteSlots []int
}

func (o ClusterOptions) withDefaults() ClusterOptions {
	o.PD, o.TiKV, o.TiDB = max(o.PD, 1), orInt(o.TiKV, 3), max(o.TiDB, 1)
	if o.Version == "" {
		o.Version = "v7.5.1"
	}
	if o.StorageClass == "" {
		o.StorageClass = "ebs-sc"
	}
	if o.SizeGiB == 0 {
		o.SizeGiB = 10
	}
	return o
}

func orInt(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}

// NewTidbCluster makes a TidbCluster as a user would write it, with what the Operator's defaults add.
func NewTidbCluster(opts ClusterOptions) *unstructured.Unstructured {
	opts = opts.withDefaults()
	size := fmt.Sprintf("%dGi", opts.SizeGiB)
	config := "[storage]\n  reserve-space = \"0MB\"\n"
	var extra []any
	add := func(name, section, key string) {
		path := "/var/lib/" + name
		extra = append(extra, object{"name": name, "storageSize": size, "mountPath": path})
		config += fmt.Sprintf("[%s]\n  %s = \"%s/%s\"\n", section, key, path, key)
	}
	if opts.RaftLogVolume {
		add("raft-log", "raft-engine", "dir")
	}
	if opts.WALVolume {
		add("wal", "rocksdb", "wal-dir")
	}
	tikv := object{
		"baseImage": "pingcap/tikv", "replicas": int64(opts.TiKV), "maxFailoverCount": int64(0),
		"requests": object{"storage": size}, "storageClassName": opts.StorageClass, "config": config,
		"scalePolicy":             object{"scaleInParallelism": int64(1), "scaleOutParallelism": int64(1)},
		"spareVolReplaceReplicas": int64(1),
	}
	if len(extra) > 0 {
		tikv["storageVolumes"] = extra
	}
	spec := object{
		"version": opts.Version, "timezone": "UTC", "pvReclaimPolicy": "Retain", "enablePVReclaim": false,
		"imagePullPolicy": "IfNotPresent", "configUpdateStrategy": "RollingUpdate",
		"enableDynamicConfiguration": true, "acrossK8s": true, "discovery": object{}, "tlsCluster": object{},
		"pd": object{
			"baseImage": "pingcap/pd", "replicas": int64(opts.PD), "maxFailoverCount": int64(0),
			"requests": object{"storage": "1Gi"}, "storageClassName": opts.StorageClass, "config": "", "startTimeout": int64(30),
		},
		"tikv": tikv,
		"tidb": object{
			"baseImage": "pingcap/tidb", "replicas": int64(opts.TiDB), "maxFailoverCount": int64(3),
			"service": object{"type": "ClusterIP"}, "config": "[log]\n  [log.file]\n    max-backups = 3\n",
		},
	}
	if opts.TLS {
		spec["tlsCluster"] = object{"enabled": true}
	}
	if opts.RecoveryMode {
		spec["recoveryMode"] = true
	}
	if opts.Join != (cluster.Name{}) {
		spec["cluster"] = object{"name": opts.Join.Name, "namespace": opts.Join.Namespace}
	}
	tc := meta(object{
		"apiVersion": "pingcap.com/v1alpha1", "kind": "TidbCluster",
		"metadata": object{"name": opts.Name.Name, "namespace": opts.Name.Namespace}, "spec": spec,
	})
	if len(opts.DeleteSlots) > 0 {
		tc.SetAnnotations(map[string]string{deleteSlotsAnnotation: jsonText(opts.DeleteSlots)})
	}
	return tc
}
