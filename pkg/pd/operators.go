package pd

import (
	"context"
	"net/http"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// noPeerText is in PD's error for removing a missing peer (server/handler.go, AddRemovePeerOperator).
const noPeerText = "region has no peer in store"

// RemovePeer posts the operator. PD does not record who added an operator: a refusal because the region has one may
// be due to this call's own first attempt, whose answer was lost. Retrying settles it.
func (c *Client) RemovePeer(ctx context.Context, region cluster.RegionID, store cluster.StoreID) error {
	body := map[string]any{"name": "remove-peer", "region_id": region, "store_id": store}
	err := c.rest.call(ctx, http.MethodPost, apiPrefix+"/operators", body, nil, mayRepeat)
	if err != nil && strings.Contains(err.Error(), noPeerText) {
		return nil
	}
	return translate(ctx, err, "remove peer", "region "+region.String()+" on store "+store.String())
}
