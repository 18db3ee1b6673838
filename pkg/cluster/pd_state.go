package cluster

import "encoding/json"

// PDStateVersion is the version of PDState that this program writes and knows in full.
const PDStateVersion = 1

// PDState is what PD keeps in its own store, and no volume of a TiKV holds. Each part is PD's own JSON as it gave
// it, unknown fields included; an empty part is one that PD has none of.
type PDState struct {
	Version int `json:"version"`
	// PlacementRules are all groups with their rules, those of TiFlash replicas included; empty where the feature
	// is off.
	PlacementRules json.RawMessage `json:"placementRules,omitempty"`
	RegionLabels   json.RawMessage `json:"regionLabels,omitempty"`
	ResourceGroups json.RawMessage `json:"resourceGroups,omitempty"`
	// Config has the sections that can be changed while PD runs. Overrides with a time limit are not in it.
	Config map[string]json.RawMessage `json:"config,omitempty"`
	// Missing has the parts that PD refused to show, with the reason.
	Missing map[string]string `json:"missing,omitempty"`
}

// The names of the parts, as in Missing.
const (
	PDPlacementRules = "placement rules"
	PDRegionLabels   = "region labels"
	PDResourceGroups = "resource groups"
	PDConfig         = "config"
)
