package operator1

import (
	"path"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// dataMountPath is where TiDB Operator mounts a store's default volume, which holds TiKV's --data-dir.
const dataMountPath = "/var/lib/tikv"

// folderKeys are the keys of TiKV's configuration that name a folder, the most important first: a volume with several
// of these folders has the role of the first.
func folderKeys() []cluster.Role {
	return []cluster.Role{
		cluster.RoleData, cluster.RoleRaftLog, cluster.RoleWAL,
		"raftdb.wal-dir", "raftstore.raftdb-path", "rocksdb.titan.dirname",
	}
}

// VolumeRole returns which folder of TiKV is on the volume mounted at mountPath. config is the TidbCluster's
// spec.tikv.config: TOML text, or an object from old Operators. A mount not in the configuration is "mount:" +
// mountPath. An unreadable configuration is Corrupt.
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
