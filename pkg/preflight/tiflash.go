package preflight

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/failure"
)

// TiFlashPolicy is what to do about TiFlash stores: their data are not part of a backup.
type TiFlashPolicy string

// The policies.
const (
	ReportTiFlash TiFlashPolicy = "report" // continue, and say that replicas must be built again
	RefuseTiFlash TiFlashPolicy = "refuse" // fail before anything is changed
)

// TiFlashPolicies lists the policies, the default first.
func TiFlashPolicies() []string { return []string{string(ReportTiFlash), string(RefuseTiFlash)} }

// CheckTiFlash says what becomes of so many TiFlash stores of the source: a warning, or Unready if the policy is to
// refuse. Without stores there is nothing to say.
func CheckTiFlash(policy TiFlashPolicy, stores int, target string) (warning string, err error) {
	switch {
	case stores == 0:
		return "", nil
	case policy == RefuseTiFlash:
		return "", failure.New(failure.Unready, "check TiFlash", target,
			"the source has %d TiFlash stores, whose data are not in a backup", stores).
			WithHint("use --tiflash=%s: the replicas can be built again from TiKV", ReportTiFlash)
	}
	return fmt.Sprintf(
		"the data of the source's %d TiFlash stores are not in the backup: TiFlash replicas must be built again "+
			"after a restore, "+
			"from TiKV, once TiFlash stores are up (information_schema.tiflash_replica shows how far they are)",
		stores), nil
}
