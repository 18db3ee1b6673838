package cli

import (
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/restore"
)

// tiflashFlag is the same for a backup and a restore.
func tiflashFlag(cmd *cobra.Command, value *preflight.TiFlashPolicy) {
	choose(cmd, cmd.Flags(), value, "tiflash", preflight.TiFlashPolicies(),
		"what to do if the source has TiFlash stores, whose data is not in a backup")
}

// pdStateFlag is the same for a restore and a resolve.
func pdStateFlag(cmd *cobra.Command, value *restore.PDStatePolicy) {
	choose(cmd, cmd.Flags(), value, "pd-state", restore.PDStatePolicies(),
		"what to do with the backup's placement rules, region labels, resource groups and PD config")
}
