package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// permanent reports whether a retry is useless. A store that does not serve its metas is not in recovery mode, and does
// not enter it by itself.
func permanent(err error) bool {
	return err != nil && !failure.Transient(err) && !errors.Is(err, context.Canceled)
}

// decide fails the run if a store's answer is permanent, or if nothing came from one for Config.Stall once nothing else
// waits for the stores: a process that crashes on its volumes every time would block the run for ever. pdErr is why PD
// does not list the stores, if so: it may have no leader, or no store yet.
func (g *gathering) decide(ctx context.Context, pdErr error) error {
	now := time.Now()
	if g.coming {
		g.listed = now
		for _, rd := range g.readers {
			rd.moved = now
		}
		return nil
	}
	if pdErr != nil && (permanent(pdErr) && !failure.Is(pdErr, failure.Unready) || now.Sub(g.listed) > g.cfg.Stall) {
		return pdErr
	}
	var late []string
	var lateStores []cluster.StoreID
	for _, rd := range g.readers {
		if rd.hopeless() && !rd.done && rd.result == nil {
			return failure.Annotate(rd.err, "read region metas", g.stores.name(rd.store))
		}
		if n := rd.count.Load(); n != rd.seen || rd.done {
			rd.seen, rd.moved = n, now
		}
		if now.Sub(rd.moved) <= g.cfg.Stall {
			continue
		}
		lateStores = append(lateStores, rd.store)
		switch {
		case !rd.listed:
			late = append(late, "store "+rd.store.String()+" is missing")
		case rd.err != nil:
			late = append(late, "nothing comes from "+g.stores.name(rd.store)+": "+rd.err.Error())
		default:
			late = append(late, "nothing comes from "+g.stores.name(rd.store))
		}
	}
	if len(late) == 0 {
		return nil
	}
	return failure.New(failure.Limited, "read region metas", g.cfg.Cluster.String(), "for %s: %s", g.cfg.Stall,
		failure.List(late)).
		WithHint("%s", g.hintWithout(ctx, lateStores))
}

// hintWithout returns the hint about stores that do not come up. It names the command that leaves them out if a plan
// without them is possible.
func (g *gathering) hintWithout(ctx context.Context, late []cluster.StoreID) string {
	const hint = "look at the logs of the stores' pods: their processes may not run on what their volumes hold"
	without := append(slices.Clone(g.cfg.TolerateStores), late...)
	switch v := g.without(ctx, late); {
	case !v.Known:
		return hint +
			"; the other stores have not been read, so whether the cluster can do without them is unknown"
	case v.Refused != nil:
		return hint + "; the cluster cannot do without them: " + failure.Line(v.Refused.Error())
	}
	flags := make([]string, len(without))
	for i, id := range without {
		flags[i] = " --tolerate-store " + id.String()
	}
	first := ""
	if !g.cfg.Kept {
		first = "restore again with --keep-on-failure, then run: "
	}
	return fmt.Sprintf("%s; every region has a quorum without them, so that they can be left out: "+
		"%stisnap resolve %s --backup %s%s", hint, first, g.cfg.Cluster, g.cfg.Backup, strings.Join(flags, ""))
}
