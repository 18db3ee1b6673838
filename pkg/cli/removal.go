package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// removal holds the flags of commands that delete.
type removal struct {
	rate        float64
	dryRun, yes bool
}

func (r *removal) add(fl *pflag.FlagSet) {
	fl.Float64Var(&r.rate, "delete-rate", 1, "maximum deletions per second")
	fl.BoolVar(&r.dryRun, "dry-run", false, "print what would be deleted; change nothing")
	fl.BoolVarP(&r.yes, "yes", "y", false, "do it")
}

// addUndo adds the flags of a command that deletes no backup, but what keeps one.
func (r *removal) addUndo(fl *pflag.FlagSet, dryRun string) {
	fl.BoolVar(&r.dryRun, "dry-run", false, dryRun)
	fl.BoolVarP(&r.yes, "yes", "y", false, "do it")
}

// validateUndo is validate for such a command.
func (r *removal) validateUndo(what string, asks bool) error {
	if !r.yes && !r.dryRun && !asks {
		return errors.New(what + ": pass --yes, or --dry-run to see what it would change")
	}
	return nil
}

// unfinishedRemoval is the message of a deleting command that must exit before it has finished.
const unfinishedRemoval = "run it again to delete the rest; if it was removing a cluster, its lock expires within 10 " +
	"minutes"

// unfinished registers what to print if the process must exit before the returned function is called.
func (a *app) unfinished(name, left string) (finished func()) {
	a.remains().Set(name, func() string { return left })
	return func() { a.remains().Clear(name) }
}

// removing is unfinished for a deleting command; a dry run leaves nothing.
func (a *app) removing(r *removal) (finished func()) {
	if r.dryRun {
		return func() {}
	}
	return a.unfinished("removal", unfinishedRemoval)
}

// confirmRemoval shows what would be deleted and asks, unless --yes or --dry-run is set.
func (a *app) confirmRemoval(
	ctx context.Context, r *removal, question string, plan func() (document, error),
) error {
	if r.yes || r.dryRun {
		return nil
	}
	doc, err := plan()
	if err != nil {
		return err
	}
	if err := write(a.streams.Err, "table", doc, a.view()); err != nil {
		return err
	}
	return a.confirm(ctx, question)
}

// validate checks the flags; asks reports whether the command can ask instead of --yes.
func (r *removal) validate(asks bool) error {
	switch {
	case r.rate <= 0 || r.rate > 100:
		return fmt.Errorf("--delete-rate %v: want more than 0 and at most 100", r.rate)
	case !r.yes && !r.dryRun && !asks:
		return errors.New("this deletes: pass --yes, or --dry-run to see what it would delete")
	}
	return nil
}
