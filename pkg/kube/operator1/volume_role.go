package operator1

import (
	"path"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// dataMountPath is where TiDB Operator mounts a store's default volume; it starts TiKV with --data-dir below it.
const dataMountPath = "/var/lib/tikv"

// folderKeys are the keys of TiKV's configuration that name a folder of its own, the most important first: a
// volume that holds several of them has the role of the first.
func folderKeys() []cluster.Role {
	return []cluster.Role{
		cluster.RoleData, cluster.RoleRaftLog, cluster.RoleWAL,
		"raftdb.wal-dir", "raftstore.raftdb-path", "rocksdb.titan.dirname",
	}
}

// VolumeRole says which folder of TiKV the volume mounted at mountPath holds. config is spec.tikv.config of
// the TidbCluster: TOML text, or the object of old Operators. A mount that the configuration does not name
// is "mount:" + mountPath. A configuration that cannot be read is Corrupt.
func VolumeRole(config any, mountPath string) (cluster.Role, error) {
	mountPath = path.Clean(mountPath)
	if mountPath == dataMountPath {
		return cluster.RoleData, nil
	}
	values, err := configValues(config)
	if err != nil {
		return "", err
	}
	for _, key := range folderKeys() {
		folder := values[string(key)]
		if folder != "" && below(path.Clean(folder), mountPath) {
			return key, nil
		}
	}
	return cluster.Role("mount:" + mountPath), nil
}

func below(folder, mountPath string) bool {
	return folder == mountPath || strings.HasPrefix(folder, strings.TrimSuffix(mountPath, "/")+"/")
}
