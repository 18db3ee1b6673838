package cluster

import "encoding/json"

// PDStateVersion is the version of PDState that this program writes and fully supports.
const PDStateVersion = 1

// PDState is what only PD stores, and no TiKV volume has. Each part is PD's own JSON, including unknown fields; an
// empty part means that PD has none.
type PDState struct {
	Version int `json:"version"`
	// PlacementRules are all groups with their rules, including those of TiFlash replicas; empty if the feature is off.
	PlacementRules json.RawMessage `json:"placementRules,omitempty"`
	RegionLabels   json.RawMessage `json:"regionLabels,omitempty"`
	ResourceGroups json.RawMessage `json:"resourceGroups,omitempty"`
	// Config has the sections that can be changed while PD runs, without overrides that expire.
	Config map[string]json.RawMessage `json:"config,omitempty"`
	// Missing maps the parts that PD refused to show to the reasons.
	Missing map[string]string `json:"missing,omitempty"`
}

// The names of the parts, as in Missing.
const (
	PDPlacementRules = "placement rules"
	PDRegionLabels   = "region labels"
	PDResourceGroups = "resource groups"
	PDConfig         = "config"
)
