package pd

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// difference is something that PD does not have as the backup has it, and the call that sets it.
type difference struct {
	what         string // "placement rules of group pd"
	method, path string // "" if no call can set it
	body         any
	extra        bool // PD has it, and the source had not
}

// PutState sets what differs from want, each difference by a call of its own, so that one that PD refuses leaves the
// others alone. The config comes first: it says whether there are placement rules at all, and PD refuses some items
// once there are rules besides its own.
func (c *Client) PutState(ctx context.Context, want cluster.PDState) (left []string, err error) {
	have, err := c.State(ctx)
	if err != nil {
		return nil, err
	}
	refused := map[string]error{}
	var transient []error
	for _, d := range differences(have, want) {
		if d.method == "" {
			continue
		}
		err := translate(ctx, c.rest.call(ctx, d.method, d.path, d.body, nil, repeatable(true)), "put back "+d.what, "")
		if refused[d.what] = err; failure.Transient(err) {
			transient = append(transient, err)
		}
	}
	if have, err = c.State(ctx); err != nil {
		return nil, err
	}
	for _, d := range differences(have, want) {
		left = append(left, d.sentence(refused[d.what]))
	}
	return append(left, lost(want)...), failure.Join(transient...)
}

// sentence says that the difference stays, and why.
func (d difference) sentence(refused error) string {
	switch {
	case d.extra:
		return d.what + " runs, and did not in the source: remove it by pd-ctl if it is to be off"
	case refused != nil:
		return fmt.Sprintf("%s could not be put back: %v", d.what, refused)
	case d.method == "":
		return fmt.Sprintf("%s: put it back by pd-ctl", d.what)
	}
	return d.what + ": PD took them and has others"
}

// lost are the parts that the backup does not have, or has in a form that this program does not know.
func lost(want cluster.PDState) []string {
	var out []string
	for _, name := range sortedKeys(want.Missing) {
		out = append(out, fmt.Sprintf("the %s are not in the backup: %s", name, want.Missing[name]))
	}
	if want.Version > cluster.PDStateVersion {
		out = append(out,
			fmt.Sprintf("the backup's PD state is of version %d, of which this program knows version %d", want.Version,
				cluster.PDStateVersion))
	}
	return out
}

// differences lists what has to be set, in the order in which PD takes it.
func differences(have, want cluster.PDState) []difference {
	var out []difference
	items, now := configItems(want.Config), configItems(have.Config)
	for _, item := range sortedKeys(items) {
		if !same(items[item], now[item]) {
			out = append(out, difference{
				what: "config " + item, method: http.MethodPost, path: apiPrefix + "/config",
				body: map[string]any{item: items[item]},
			})
		}
	}
	for _, g := range changed(want.PlacementRules, have.PlacementRules, "group_id", withoutVersions) {
		out = append(out, difference{
			what: "placement rules of group " + g.id, method: http.MethodPost, path: placementPath + "?partial=true",
			body: []any{g.value},
		})
	}
	for _, r := range changed(want.RegionLabels, have.RegionLabels, "id", nil) {
		if expires(r.value) {
			continue
		}
		out = append(out, difference{
			what: "region label " + r.id, method: http.MethodPatch, path: regionLabelPath,
			body: map[string]any{"sets": []any{r.value}, "deletes": []string{}},
		})
	}
	for _, g := range changed(want.ResourceGroups, have.ResourceGroups, "name", withoutTokens) {
		method := http.MethodPost
		if g.known {
			method = http.MethodPut
		}
		out = append(out, difference{what: "resource group " + g.id, method: method, path: groupPath, body: g.value})
	}
	return append(out, schedulerDifferences(schedulersIn(have.Config), schedulersIn(want.Config))...)
}
