package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/restore"
)

// flashbackFlags are the same for every command that flashes back.
type flashbackFlags struct {
	flashback      restore.FlashbackPolicy
	checkUnchanged int
}

func (f *flashbackFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	choose(cmd, fl, &f.flashback, "flashback", restore.FlashbackPolicies(),
		"which regions to flash back to the backup ts; auto skips those proven unchanged since")
	fl.IntVar(&f.checkUnchanged, "check-unchanged", 0,
		"flash back this many unchanged regions, chosen at random, anyway, and fail if a row changes")
}

func (f *flashbackFlags) validate() error {
	if f.checkUnchanged < 0 {
		return fmt.Errorf("--check-unchanged %d: want at least 0", f.checkUnchanged)
	}
	return nil
}

func (f *flashbackFlags) into(opts *restore.Options) {
	opts.Flashback, opts.CheckUnchanged = f.flashback, f.checkUnchanged
}
