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

// asideLimit bounds the calls that set an earlier Restore's document aside.
const asideLimit = 30 * time.Second

// aside records what happened to a restoremeta that was in the storage when this process started.
type aside struct {
	key string // where it is kept; "" if there was none
	err error  // it may still be there
}

// setAside moves an earlier Restore's restoremeta away before `restore full --prepare` can fail for any reason: on
// failure TiDB Operator deletes the volumes that it names. It therefore runs before the command line is validated, and
// only needs to know the storage. The document is never this run's own: a --prepare run is never resumed, and writes
// its document at the end.
//
// An error does not fail the run, because the Operator would then delete those volumes at once; a successful run
// replaces the document.
func (a *app) setAside(ctx context.Context, args []string) {
	asked := (&app{streams: a.streams}).prepareAsked(args)
	if asked == nil {
		return
	}
	a.bound(RestoreGrace)
	// Not with ctx: a terminated Job has failed too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideLimit)
	defer cancel()
	store, err := asked.openStorage(ctx, objstore.Config{})
	if err != nil {
		return // the command fails in the same way
	}
	if closer, ok := store.(interface{ Close() }); ok {
		defer closer.Close()
	}
	a.aside.key, a.aside.err = catalog.Catalog{Store: store}.SetRestoredAside(ctx)
}

// prepareAsked returns the flags of a `restore full --prepare` command line, as far as they can be parsed; nil for any
// other.
func (a *app) prepareAsked(args []string) *Common {
	cmd, flags, err := a.root().Find(args)
	if err != nil || cmd.CommandPath() != "br restore full" || slices.Contains(flags, "--help") ||
		slices.Contains(flags, "-h") {
		return nil
	}
	cmd.FParseErrWhitelist = cobra.FParseErrWhitelist{UnknownFlags: true}
	for i := range flags { // one by one: an invalid flag must not hide the others
		if cmd.ParseFlags(flags[i:i+1]) != nil && i+1 < len(flags) {
			_ = cmd.ParseFlags(flags[i : i+2]) // the command itself refuses invalid flags
		}
	}
	prepare, _ := cmd.Flags().GetBool("prepare")
	if !prepare || a.common.Storage == "" {
		return nil
	}
	return &a.common
}

// logAside logs what was set aside, once there is a log.
func (a *app) logAside() {
	switch {
	case a.aside.err != nil:
		a.log.Warn("the "+manifest.BRRestoreMeta+" of an earlier Restore may still be there", zap.Error(a.aside.err))
	case a.aside.key != "":
		a.log.Info("set aside the document of an earlier Restore's volumes: TiDB Operator would delete them if this "+
			"one failed", zap.String("kept-as", a.aside.key))
	}
}

// notAside adds to the run's final error that an earlier Restore's document may still be there.
func (a *app) notAside(err error) error {
	if err == nil || a.aside.err == nil {
		return err
	}
	left := failure.New(failure.KindOf(a.aside.err), "set aside "+manifest.BRRestoreMeta, a.common.Storage, "%w",
		a.aside.err).
		WithHint("delete it before TiDB Operator deletes the earlier Restore's volumes that it names")
	return failure.Join(err, left)
}
