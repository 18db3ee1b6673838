package preflight

import (
	"fmt"
	"strings"
)

// BlocksStores reports whether this version of TiKV takes a store that PD does not know yet for a removed one, and
// sends it nothing until it restarts (tikv/tikv#19980).
func BlocksStores(version string) bool {
	v := strings.TrimPrefix(version, "v")
	return v == "8.5.7" || strings.HasPrefix(v, "8.5.7-") || strings.HasPrefix(v, "9.0.0-beta")
}

// CheckBlockedStores returns a warning if the backup's TiKV is such a version; empty is none. A restore has no other
// one: package kube refuses a --patch or --from-manifest with another version, as its stores might not open the data.
func CheckBlockedStores(version string) (warning string) {
	if !BlocksStores(version) {
		return ""
	}
	return fmt.Sprintf("the backup is of TiKV %s, which sends nothing to a store that joins the cluster late until it "+
		"is restarted (tikv/tikv#19980): if replicas do not catch up after the restore, restart the TiKV pods one by "+
		"one, or upgrade then to a version that has the fix, such as 8.5.8", version)
}
