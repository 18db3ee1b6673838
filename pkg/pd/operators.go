package pd

import (
	"context"
	"net/http"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// noPeerText is in PD's refusal to remove a peer that is not there (server/handler.go, AddRemovePeerOperator).
const noPeerText = "region has no peer in store"

// RemovePeer posts the operator. PD names no operator's owner: one that is refused because the region has one may be
// this one, whose answer was lost, and asking again shows it.
func (c *Client) RemovePeer(ctx context.Context, region cluster.RegionID, store cluster.StoreID) error {
	body := map[string]any{"name": "remove-peer", "region_id": region, "store_id": store}
	err := c.rest.call(ctx, http.MethodPost, apiPrefix+"/operators", body, nil, mayRepeat)
	if err != nil && strings.Contains(err.Error(), noPeerText) {
		return nil
	}
	return translate(ctx, err, "remove peer", "region "+region.String()+" on store "+store.String())
}
