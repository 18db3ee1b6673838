package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/tracing"
	"github.com/tisnap/tisnap/pkg/tracing/otlp"
)

// work is what a long command does once connected: plan or run. Both return the document to print.
type work struct {
	plan func(context.Context) (document, error)
	// run's document is printed even after an error, and names it.
	run func(context.Context) (doc document, err error)
	// id is the run's, store where its journal is: for --wait=false, and for a dry run of one that would be resumed.
	id    cluster.RunID
	store objstore.Store
	// request is what a resumed run must have been begun with; lockWait is how long a run may be watched for that.
	request  journal.About
	lockWait time.Duration
}

// operate connects, then prints the plan (--dry-run) or does the work and prints its result. Progress has ended before
// anything is printed.
func (a *app) operate(
	cmd *cobra.Command, dryRun bool, prepare func(context.Context, *connections, *session) (work, error),
) (err error) {
	if err := a.announce.validate(); err != nil {
		return usage(cmd, err)
	}
	if !dryRun {
		a.toAnnounce(cmd, nil)
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	conn, err := a.connections(s.log)
	if err != nil {
		return err
	}
	defer conn.close()
	conn.warn = func(text string) { s.log.Warn(text) }
	ctx, endTrace, err := a.trace(cmd, s)
	if err != nil {
		return err
	}
	defer func() { endTrace(err) }()
	conn.traced = tracing.On(ctx)
	w, err := prepare(ctx, conn, s)
	if err != nil {
		return err
	}
	if dryRun {
		doc, err := w.resumePlan(ctx, conn.warn)
		if doc == nil && err == nil {
			doc, err = w.plan(ctx)
		}
		s.end()
		if err != nil {
			return err
		}
		return a.print(doc)
	}
	if !a.wait && w.store != nil {
		s.end()
		doc, err := a.background(ctx, cmd, w.store, w.id)
		if err != nil {
			return err
		}
		return a.print(doc)
	}
	doc, err := w.run(ctx)
	a.toAnnounce(cmd, doc)
	s.end()
	if printErr := a.print(doc); printErr != nil && err == nil {
		err = printErr
	}
	return err
}

// trace starts the run's trace if the environment names a collector; without one the returned end does nothing.
func (a *app) trace(cmd *cobra.Command, s *session) (ctx context.Context, end func(error), err error) {
	if !otlp.Enabled() {
		return cmd.Context(), func(error) {}, nil
	}
	return otlp.Start(cmd.Context(), "tisnap "+cmd.Name(), a.version.Version, s.log)
}
