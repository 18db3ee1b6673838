package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/restore"
)

// flashbackFlags are the same for every command that flashes back.
type flashbackFlags struct {
	flashback      string
	checkUnchanged int
}

func (f *flashbackFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.flashback, "flashback", string(restore.FlashbackAuto),
		"which regions are taken back to the backup ts; auto leaves those that provably nothing was written to since: "+strings.Join(restore.FlashbackPolicies(), "|"))
	fl.IntVar(&f.checkUnchanged, "check-unchanged", 0, "take so many of the unchanged regions, chosen at random, back all the same, and fail if a row changes")
	complete(cmd, "flashback", restore.FlashbackPolicies()...)
}

func (f *flashbackFlags) validate() error {
	if f.checkUnchanged < 0 {
		return fmt.Errorf("--check-unchanged %d: want at least 0", f.checkUnchanged)
	}
	return restore.CheckFlashbackPolicy(f.flashback)
}

func (f *flashbackFlags) into(opts *restore.Options) {
	opts.Flashback, opts.CheckUnchanged = restore.FlashbackPolicy(f.flashback), f.checkUnchanged
}
