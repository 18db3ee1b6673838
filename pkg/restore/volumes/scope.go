package volumes

import (
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Scope selects which of a backup's volumes are made.
type Scope int

// The scopes, by br's numbers.
const (
	ScopeAll   Scope = iota
	ScopeData        // those with TiKV's data folder
	ScopeOther       // all others: raft log, write-ahead log
)

// of returns the volumes in the scope.
func (s Scope) of(volumes []Volume) []Volume {
	return slices.DeleteFunc(volumes, func(v Volume) bool {
		return s == ScopeData && v.Role != cluster.RoleData || s == ScopeOther && v.Role == cluster.RoleData
	})
}
