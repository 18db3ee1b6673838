package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// removal is the flags of commands that delete.
type removal struct {
	rate        float64
	dryRun, yes bool
}

func (r *removal) add(fl *pflag.FlagSet) {
	fl.Float64Var(&r.rate, "delete-rate", 1, "deletions a second at most")
	fl.BoolVar(&r.dryRun, "dry-run", false, "print what would be deleted; change nothing")
	fl.BoolVarP(&r.yes, "yes", "y", false, "do it")
}

func (r *removal) validate() error {
	switch {
	case r.rate <= 0 || r.rate > 100:
		return fmt.Errorf("--delete-rate %v: want more than 0 and at most 100", r.rate)
	case !r.yes && !r.dryRun:
		return errors.New("it deletes, so it needs --yes; --dry-run shows what")
	}
	return nil
}
