package ebstest

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

// Config describes an account in a region. The zero value is us-west-2 with three zones at real speed,
// under QuickRules.
type Config struct {
	Region  string
	Zones   []cluster.Zone
	ZoneIDs map[cluster.Zone]string // nil is usw2-az1, usw2-az2, … in the zones' order
	Account string                  // 12 digits
	Clock   timescale.Clock
	Faults  *fault.Plan
	Rules   *Rules // nil is QuickRules
	Seed    uint64 // of all random choices
	// Keys are those that KMS has beside the default one, by what calls name them; nil is any that is named.
	Keys []string
}
