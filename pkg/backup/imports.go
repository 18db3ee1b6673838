package backup

import (
	"context"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// checkImports refuses a running import or warns of it, as the user chose.
func (o *source) checkImports(ctx context.Context, s *phase.Scope) error {
	if o.opts.OnImport == preflight.WaitOnImport {
		return nil // a step of its own
	}
	running, err := preflight.RunningImports(ctx, o.pd, o.tikv, o.Topology.Stores)
	switch {
	case err != nil:
		return err
	case len(running) == 0:
		return nil
	case o.opts.OnImport == preflight.PauseOnImport:
		s.Warn("an import runs, and cannot ingest files during the hold: %s", strings.Join(running, "; "))
		return nil
	}
	return preflight.RefuseImports(o.opts.Cluster, running)
}

// importInterval is how often a running import is polled.
const importInterval = 5 * time.Second

// awaitImports waits until no import runs. A failed call does not end a wait that may take an hour.
func (o *source) awaitImports(ctx context.Context, s *phase.Scope) error {
	waiting, cancel := context.WithTimeout(ctx, o.opts.ImportTimeout)
	defer cancel()
	shown := ""
	err := wait.Until(waiting, wait.Every(min(importInterval, o.opts.ImportTimeout/10)), func() (bool, error) {
		running, err := preflight.RunningImports(ctx, o.pd, o.tikv, o.Topology.Stores)
		if err != nil || len(running) == 0 {
			return !failure.Transient(err), err
		}
		if now := strings.Join(running, "; "); now != shown {
			shown = now
			s.Note("waiting until an import has ended: %s", now)
		}
		return false, nil
	})
	switch ended := wait.EndOf(err); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return failure.Annotate(context.Cause(ctx), "wait for imports", o.opts.Cluster.String())
	case ended == nil:
		return err
	case ended.Last != nil:
		return ended.Last
	}
	return failure.New(failure.Unready, "wait for imports", o.opts.Cluster.String(),
		"after %s an import still runs: %s",
		o.opts.ImportTimeout, shown).WithHint("raise --import-timeout, or choose --on-import=pause")
}
