package pd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Settings is what PD keeps in its own storage, which no snapshot covers.
type Settings interface {
	// State reads it all. A part that PD permanently refuses to return is in Missing; an error is transient.
	State(ctx context.Context) (cluster.PDState, error)
	// PutState sets PD's state to that of a backup: it sets what differs and keeps what only PD has. It then reads it
	// all back and returns a sentence per remaining difference. Idempotent. An error is transient.
	PutState(ctx context.Context, want cluster.PDState) (left []string, err error)
}

var _ Settings = (*Client)(nil)

const (
	placementPath   = apiPrefix + "/config/placement-rule"
	regionLabelPath = apiPrefix + "/config/region-label/rules"
	groupsPath      = "/resource-manager/api/v1/config/groups"
	groupPath       = "/resource-manager/api/v1/config/group"
)

// configSections returns the sections that can be changed while PD runs.
func configSections() []string {
	return []string{"schedule", "replication", "replication-mode", "pd-server"}
}

// State reads placement rules, region labels, resource groups and the changeable config.
func (c *Client) State(ctx context.Context) (cluster.PDState, error) {
	state := cluster.PDState{
		Version: cluster.PDStateVersion, Config: map[string]json.RawMessage{}, Missing: map[string]string{},
	}
	for _, part := range []struct {
		name, path string
		into       *json.RawMessage
	}{
		{cluster.PDPlacementRules, placementPath, &state.PlacementRules},
		{cluster.PDRegionLabels, regionLabelPath, &state.RegionLabels},
		{cluster.PDResourceGroups, groupsPath, &state.ResourceGroups},
	} {
		if err := c.readPart(ctx, &state, part.name, part.path, part.into); err != nil {
			return state, err
		}
	}
	var all map[string]json.RawMessage
	var raw json.RawMessage
	if err := c.readPart(ctx, &state, cluster.PDConfig, apiPrefix+"/config", &raw); err != nil || raw == nil {
		return state, err
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return state, failure.Wrap(err, failure.Unknown, "read PD's config", "")
	}
	for _, section := range configSections() {
		if value, found := all[section]; found {
			state.Config[section] = value
		}
	}
	return state, nil
}

// readPart reads one part. A permanent refusal is recorded in Missing, but not for a feature that is off.
func (c *Client) readPart(ctx context.Context, state *cluster.PDState, name, path string, into *json.RawMessage) error {
	err := c.rest.call(ctx, http.MethodGet, path, nil, into, mayRepeat)
	var refused *statusError
	if errors.As(err, &refused) && refused.status == http.StatusPreconditionFailed {
		return nil
	}
	if err = translate(ctx, err, "read "+name, ""); err == nil {
		return nil
	}
	if failure.Transient(err) || ctx.Err() != nil {
		return err
	}
	state.Missing[name] = err.Error()
	return nil
}
