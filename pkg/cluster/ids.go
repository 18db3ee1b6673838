package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Identifiers assigned by PD, TiKV and AWS.
type (
	// StoreID is PD's id of a TiKV store. It lives on the store's data volume, so a restored store keeps it.
	StoreID uint64
	// RegionID is PD's id of a region.
	RegionID uint64
	// PeerID is PD's id of a region's replica on one store.
	PeerID uint64
	// VolumeID is an EBS volume, "vol-…".
	VolumeID string
	// SnapshotID is an EBS snapshot, "snap-…".
	SnapshotID string
	// InstanceID is an EC2 instance, "i-…".
	InstanceID string
	// Zone is an availability zone's name, "us-west-2a".
	Zone string
	// RunID identifies one run for ever; it is in all tags and the journal of the run.
	RunID string
	// BackupID names a backup within its storage prefix.
	BackupID string
)

// Role is the TiKV config key of a volume's folder: "storage.data-dir", "raft-engine.dir", …
// It distinguishes a store's volumes when names and ordinals change.
type Role string

// The roles of a store's volumes in TiDB Operator.
const (
	RoleData    Role = "storage.data-dir"
	RoleRaftLog Role = "raft-engine.dir"
	RoleWAL     Role = "rocksdb.wal-dir"
)

// Name is a TidbCluster's namespace and name.
type Name struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is "namespace/name".
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// ParseName parses "name" or "namespace/name"; fallback is the default namespace. Anything but DNS labels is a Usage
// error.
func ParseName(s, fallback string) (Name, error) {
	ns, name, found := strings.Cut(s, "/")
	if !found {
		ns, name = fallback, s
	}
	if !isLabel(ns) || !isLabel(name) {
		return Name{}, failure.New(failure.Usage, "parse cluster name", fmt.Sprintf("%q", s),
			"it is not made of lower-case letters, digits and hyphens").WithHint("write it as NAME or NAMESPACE/NAME")
	}
	return Name{Namespace: ns, Name: name}, nil
}

func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, r := range s {
		if r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}

// String is the decimal number.
func (id StoreID) String() string { return strconv.FormatUint(uint64(id), 10) }

// String is the decimal number.
func (id RegionID) String() string { return strconv.FormatUint(uint64(id), 10) }

// String is the decimal number.
func (id PeerID) String() string { return strconv.FormatUint(uint64(id), 10) }
