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

// checkImports refuses a running import, or warns of it, as the user chose.
func (r *run) checkImports(ctx context.Context, s *phase.Scope) error {
	if r.opts.OnImport == preflight.WaitOnImport {
		return nil // a step of its own
	}
	running, err := preflight.RunningImports(ctx, r.PD, r.TiKV, r.source.Topology.Stores)
	switch {
	case err != nil:
		return err
	case len(running) == 0:
		return nil
	case r.opts.OnImport == preflight.PauseOnImport:
		s.Warn("an import runs, and is refused files during the hold: %s", strings.Join(running, "; "))
		return nil
	}
	return preflight.RefuseImports(r.opts.Cluster, running)
}

// importInterval is how often a running import is polled.
const importInterval = 5 * time.Second

// awaitImports returns when no import runs. An answer that fails for a moment does not end a wait of an hour.
func (r *run) awaitImports(ctx context.Context, s *phase.Scope) error {
	waiting, cancel := context.WithTimeout(ctx, r.opts.ImportTimeout)
	defer cancel()
	var reason error // why the last poll failed, if it did
	for shown := ""; ; {
		running, err := preflight.RunningImports(ctx, r.PD, r.TiKV, r.source.Topology.Stores)
		switch {
		case err == nil && len(running) == 0:
			return nil
		case err == nil:
			reason = nil
			if now := strings.Join(running, "; "); now != shown {
				shown = now
				s.Note("waiting until an import has ended: %s", now)
			}
		case ctx.Err() == nil && !failure.Transient(err):
			return err
		case ctx.Err() == nil:
			reason = err
		}
		if wait.For(waiting, min(importInterval, r.opts.ImportTimeout/10)) == nil {
			continue
		}
		switch {
		case ctx.Err() != nil:
			return failure.Annotate(context.Cause(ctx), "wait for imports", r.opts.Cluster.String())
		case reason != nil:
			return reason
		}
		return failure.New(failure.Unready, "wait for imports", r.opts.Cluster.String(), "after %s an import still runs: %s",
			r.opts.ImportTimeout, shown).WithHint("raise --import-timeout, or choose --on-import=pause")
	}
}
