package manifest

import "github.com/tisnap/tisnap/pkg/cluster"

// EarlyApplyState is whether a store's data may be ahead of its own raft log, as far as known.
type EarlyApplyState string

// The states. A manifest without one, or with an unknown one, is unproven.
const (
	// EarlyApplyExcluded means that early apply was off during the cut, and that no peer of any region was ahead.
	EarlyApplyExcluded EarlyApplyState = "excluded"
	// EarlyApplyUnproven means that replicas may be ahead, on some stores, of some regions, or anywhere.
	EarlyApplyUnproven EarlyApplyState = "unproven"
	// EarlyApplyNotApplicable means that no store has the setting: its TiKV applies only what its own log has.
	EarlyApplyNotApplicable EarlyApplyState = "not-applicable"
)

// EarlyApply records what a backup did about TiKV's early apply, by which a leader applies entries that its own raft
// log does not have yet: a store cut in between has data that no log in the backup explains.
type EarlyApply struct {
	State EarlyApplyState `json:"state"`
	// Stores are those on which any replica may be ahead, of an unproven backup: early apply could not be turned off
	// there.
	Stores []cluster.StoreID `json:"stores,omitempty"`
	// Regions are those of which any replica may be ahead, on whatever store. With neither stores nor regions an
	// unproven backup does not record where.
	Regions []cluster.RegionID `json:"regions,omitempty"`
}

// EarlyApplyRuledOut reports whether no replica in the snapshots can be ahead of its log.
func (m *Manifest) EarlyApplyRuledOut() bool {
	return m.EarlyApply != nil &&
		(m.EarlyApply.State == EarlyApplyExcluded || m.EarlyApply.State == EarlyApplyNotApplicable)
}
