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

// unfinishedRemoval is what is left of a command that deletes and has to end before it has.
const unfinishedRemoval = "what was not deleted stays: run it again; if a cluster was being taken away, its lock " +
	"ends after 10 minutes at most"

// unfinished says what is left if the process has to end before the function returned is called.
func (a *app) unfinished(name, left string) (finished func()) {
	a.remains().Set(name, func() string { return left })
	return func() { a.remains().Clear(name) }
}

// removing is unfinished for a command that deletes; a dry run leaves nothing.
func (a *app) removing(r *removal) (finished func()) {
	if r.dryRun {
		return func() {}
	}
	return a.unfinished("removal", unfinishedRemoval)
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
