package resolve

import (
	"context"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// retryInterval is how often a store that is not ready is retried.
const retryInterval = 200 * time.Millisecond

// run reads the metas of all stores concurrently, each as soon as PD lists it. The stores in PD must be exactly those
// of the manifest, and none may have restarted since it was read.
func (g *gathering) run(ctx context.Context, s *phase.Scope) (*plan.Metas, error) {
	defer g.stop()
	if len(g.cfg.Stores) == 0 {
		return nil, failure.New(failure.Unready, "read region metas", g.cfg.Cluster.String(),
			"the backup has no store that is not left out")
	}
	start := time.Now()
	s.Expect(int64(len(g.cfg.Stores)), "stores")
	for {
		g.coming = g.cfg.Coming() // before the check: what comes later is checked next time
		g.takeEnded()
		found, foreign, err := g.stores.find(ctx)
		if len(foreign) > 0 && !g.coming {
			return nil, failure.New(failure.Unready, "match stores with the backup", g.cfg.Cluster.String(), "%s",
				strings.Join(foreign, ", "))
		}
		if err == nil {
			g.begin(ctx, found)
		}
		read := g.read()
		s.Reached(int64(read))
		if read == len(g.cfg.Stores) && err == nil {
			break
		}
		if err := g.decide(ctx, err); err != nil {
			return nil, err
		}
		if err := g.await(ctx); err != nil {
			return nil, failure.Annotate(err, "read region metas", g.cfg.Cluster.String())
		}
	}
	took := time.Since(start)
	s.Note("%d peers on %d stores, %.0f a second", g.metas.Len(), len(g.cfg.Stores),
		float64(g.metas.Len())/max(took.Seconds(), 1e-3))
	return g.metas, nil
}
