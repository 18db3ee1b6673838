package brcompat

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// asideLimit bounds the calls that set the document of an earlier Restore aside.
const asideLimit = 30 * time.Second

// aside is what became of the restoremeta that was in the storage when this process began.
type aside struct {
	key string // where it is kept; "" if there was none
	err error  // it may still be there
}

// setAside takes the restoremeta of an earlier Restore away before `restore full --prepare` can fail of anything: then
// TiDB Operator deletes the volumes that it names. So it comes before the command line is judged, and needs of it no
// more than where the storage is. It is never this run's own: a run of --prepare is never continued, and its document
// is written after it.
//
// An error does not end the run, as then the Operator would delete those volumes at once: a run that succeeds replaces
// it.
func (a *app) setAside(ctx context.Context, args []string) {
	asked := (&app{streams: a.streams}).prepareAsked(args)
	if asked == nil {
		return
	}
	a.bound(RestoreGrace)
	// Not with ctx: a Job that is terminated has failed, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideLimit)
	defer cancel()
	store, err := asked.openStorage(ctx, objstore.Config{})
	if err != nil {
		return // the command meets the same
	}
	if closer, ok := store.(interface{ Close() }); ok {
		defer closer.Close()
	}
	a.aside.key, a.aside.err = catalog.Catalog{Store: store}.SetRestoredAside(ctx)
}

// prepareAsked are the flags of a command line of `restore full --prepare`, as far as they can be read; nil if it is
// another.
func (a *app) prepareAsked(args []string) *Common {
	cmd, flags, err := a.root().Find(args)
	if err != nil || cmd.CommandPath() != "br restore full" || slices.Contains(flags, "--help") ||
		slices.Contains(flags, "-h") {
		return nil
	}
	cmd.FParseErrWhitelist = cobra.FParseErrWhitelist{UnknownFlags: true}
	for i := range flags { // each by itself: that one is wrong is no reason to overlook the others
		if cmd.ParseFlags(flags[i:i+1]) != nil && i+1 < len(flags) {
			_ = cmd.ParseFlags(flags[i : i+2]) // the command itself refuses what cannot be read
		}
	}
	prepare, _ := cmd.Flags().GetBool("prepare")
	if !prepare || a.common.Storage == "" {
		return nil
	}
	return &a.common
}

// sayAside says what was set aside, once there is a log.
func (a *app) sayAside() {
	switch {
	case a.aside.err != nil:
		a.log.Warn("the "+manifest.BRRestoreMeta+" of an earlier Restore may still be there", zap.Error(a.aside.err))
	case a.aside.key != "":
		a.log.Info("the document of an earlier Restore's volumes was set aside: TiDB Operator would delete them if "+
			"this one failed", zap.String("kept-as", a.aside.key))
	}
}

// notAside adds to the error that ends a run that a document of an earlier Restore may still be there.
func (a *app) notAside(err error) error {
	if err == nil || a.aside.err == nil {
		return err
	}
	left := failure.New(failure.KindOf(a.aside.err), "set aside "+manifest.BRRestoreMeta, a.common.Storage, "%w",
		a.aside.err).
		WithHint("delete it before TiDB Operator deletes the volumes of the earlier Restore that it names")
	return failure.Join(err, left)
}
