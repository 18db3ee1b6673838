package preflight

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/failure"
)

// TiFlashPolicy is what to do about TiFlash stores: their data is not part of a backup.
type TiFlashPolicy string

// The policies.
const (
	ReportTiFlash TiFlashPolicy = "report" // continue, and report that replicas must be rebuilt
	RefuseTiFlash TiFlashPolicy = "refuse" // fail before anything is changed
)

// TiFlashPolicies lists the policies, the default first.
func TiFlashPolicies() []string { return []string{string(ReportTiFlash), string(RefuseTiFlash)} }

// CheckTiFlash returns a warning about the source's TiFlash stores, or Unready if the policy is to refuse. Without such
// stores it returns neither.
func CheckTiFlash(policy TiFlashPolicy, stores int, target string) (warning string, err error) {
	switch {
	case stores == 0:
		return "", nil
	case policy == RefuseTiFlash:
		return "", failure.New(failure.Unready, "check TiFlash", target,
			"the source has %d TiFlash stores, whose data is not in a backup", stores).
			WithHint("use --tiflash=%s: the replicas can be rebuilt from TiKV", ReportTiFlash)
	}
	return fmt.Sprintf(
		"the data of the source's %d TiFlash stores is not in the backup: after a restore, TiFlash replicas must be "+
			"rebuilt from TiKV once TiFlash stores are up (progress is in information_schema.tiflash_replica)",
		stores), nil
}
