package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/restore"
)

// tiflashFlag is the same for a backup and a restore.
func tiflashFlag(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "tiflash", string(preflight.ReportTiFlash),
		"if the source has TiFlash stores, whose data are not in a backup: "+strings.Join(preflight.TiFlashPolicies(), "|"))
	complete(cmd, "tiflash", preflight.TiFlashPolicies()...)
}

// pdStateFlag is the same for a restore and a resolve.
func pdStateFlag(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "pd-state", string(restore.RestorePDState),
		"what to do with the backup's placement rules, region labels, resource groups and PD config: "+strings.Join(restore.PDStatePolicies(), "|"))
	complete(cmd, "pd-state", restore.PDStatePolicies()...)
}

func checkPDState(value string) error {
	if !slices.Contains(restore.PDStatePolicies(), value) {
		return fmt.Errorf("--pd-state %q: want %s", value, strings.Join(restore.PDStatePolicies(), ", "))
	}
	return nil
}
