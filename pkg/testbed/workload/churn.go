package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/tikv/client-go/v2/tikv"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// churnRegions is where Churn stops to split: one region for so many accounts.
	churnRegions = 500
	churnTimeout = 2 * time.Second
)

// Churn splits regions and moves leaders now and then until ctx ends, as a busy cluster does on its own. Refusals,
// such as those of a cluster that is held still, are of no account.
func (w *Workload) Churn(ctx context.Context) error {
	c, err := w.Cluster(ctx)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(w.cfg.Seed), 1<<32))
	web := &http.Client{Timeout: churnTimeout}
	defer web.CloseIdleConnections()
	for {
		interval := time.Duration((0.5 + r.Float64()) * float64(w.cfg.Interval))
		if wait.For(ctx, interval) != nil {
			return nil
		}
		w.churnOnce(ctx, c, r, web)
	}
}

func (w *Workload) churnOnce(ctx context.Context, c *Cluster, r *rand.Rand, web *http.Client) {
	ctx, cancel := context.WithTimeout(ctx, churnTimeout)
	defer cancel()
	key := []byte(accountKey(w.account(r)))
	if r.IntN(2) == 0 && w.count.splits.Load() < int64(w.cfg.Accounts/churnRegions) {
		if _, err := c.store.SplitRegions(ctx, [][]byte{key}, false, nil); err == nil {
			w.count.splits.Add(1)
		}
		return
	}
	loc, err := c.store.GetRegionCache().LocateKey(tikv.NewBackofferWithVars(ctx, int(churnTimeout.Milliseconds()), nil), key)
	if err != nil {
		return
	}
	region, err := c.pd.GetRegionByID(ctx, loc.Region.GetID())
	if err != nil || region == nil || region.Meta == nil || len(region.Meta.Peers) == 0 {
		return
	}
	to := region.Meta.Peers[r.IntN(len(region.Meta.Peers))].StoreId
	if err := transferLeader(ctx, web, w.cfg.PD[0], region.Meta.Id, to); err == nil {
		w.count.moves.Add(1)
	}
}

// transferLeader asks PD for an operator, as pd-ctl does.
func transferLeader(ctx context.Context, web *http.Client, pdURL string, region, store uint64) error {
	if !strings.Contains(pdURL, "://") {
		pdURL = "http://" + pdURL
	}
	body := fmt.Sprintf(`{"name":"transfer-leader","region_id":%d,"to_store_id":%d}`, region, store)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, pdURL+"/pd/api/v1/operators", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return failure.New(failure.Unknown, "transfer leader", fmt.Sprintf("region %d", region), "PD answered %s", resp.Status)
	}
	return nil
}
