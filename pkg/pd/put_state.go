package pd

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// difference is a setting that PD has otherwise than the backup, and the call that sets it.
type difference struct {
	what         string // "placement rules of group pd"
	method, path string // "" if no call can set it
	body         any
	extra        bool // PD has it, the source did not
}

// PutState sets what differs from want, in one call per difference, so that one refusal does not affect the others.
// The config comes first: it enables placement rules, and PD refuses some items once there are rules besides its own.
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
		err := translate(ctx, c.rest.call(ctx, d.method, d.path, d.body, nil, mayRepeat), "restore "+d.what, "")
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
	return append(left, notInBackup(want)...), failure.Join(transient...)
}

// sentence describes a difference that remains, and why.
func (d difference) sentence(refused error) string {
	switch {
	case d.extra:
		return d.what + " runs but did not in the source: remove it with pd-ctl if you do not want it"
	case refused != nil:
		return fmt.Sprintf("could not restore %s: %v", d.what, refused)
	case d.method == "":
		return fmt.Sprintf("%s: restore it with pd-ctl", d.what)
	}
	return d.what + ": PD accepted the value but has another"
}

// notInBackup describes the parts that the backup lacks, or has in a newer format.
func notInBackup(want cluster.PDState) []string {
	var out []string
	for _, name := range sortedKeys(want.Missing) {
		out = append(out, fmt.Sprintf("the %s are not in the backup: %s", name, want.Missing[name]))
	}
	if want.Version > cluster.PDStateVersion {
		out = append(out,
			fmt.Sprintf("the backup's PD state has version %d, but this program knows only version %d", want.Version,
				cluster.PDStateVersion))
	}
	return out
}

// differences lists what to set, in the order in which PD accepts it.
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
