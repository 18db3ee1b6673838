package pdtest

import (
	"crypto/tls"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

// Config is how a stand-in is set up. The zero value is one member on a free port of 127.0.0.1.
type Config struct {
	Members   int    // number of PD members; 0 is 1
	Addr      string // host:port of the first member; "" is 127.0.0.1:0. The others take free ports of its host
	Advertise string // host in the members' URLs, as a pod's DNS name is; "" is where they listen
	Name      string // of the first member; "" is pd-0
	Version   string // cluster version, "8.5.0" if empty: the stand-in has what a PD of that version has
	ClusterID uint64 // 0: a random one
	Faults    *fault.Plan
	Clock     timescale.Clock // all TTLs, timestamps and delays run on it
	TLS       *tls.Config     // nil: plain text

	// CoordinatorDelay is from the heartbeats of most regions to the first scheduler; 0 is the observed 1.5 s.
	CoordinatorDelay time.Duration
	// StartDelay is how long a started member answers "server not started"; observed 5.8 s, default none.
	StartDelay time.Duration
	// ElectionTimeout is how long a cluster of three is without a leader after a kill; 0 is the observed 13 s.
	ElectionTimeout time.Duration
	// Configs overrides base config items ("pd-server.min-resolved-ts-persistence-interval": "0s").
	Configs map[string]any
}

const (
	defaultCoordinatorDelay = 1500 * time.Millisecond
	defaultElectionTimeout  = 13 * time.Second
	defaultVersion          = "8.5.0"
)

func (c Config) withDefaults() Config {
	if c.Members == 0 {
		c.Members = 1
	}
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.Version == "" {
		c.Version = defaultVersion
	}
	if c.CoordinatorDelay == 0 {
		c.CoordinatorDelay = defaultCoordinatorDelay
	}
	if c.ElectionTimeout == 0 {
		c.ElectionTimeout = defaultElectionTimeout
	}
	return c
}

// The versions in which PD got what younger clients may use. Everything else that a backup or restore asks for
// is the same in 7.5, 8.1 and 8.5: one exercise of 39 steps passed on all three.
const (
	scopeSince = "8.0" // min-resolved-ts?scope=; 7.5 is played without it, as its early releases may be
	batchSince = "8.3" // BatchScanRegions
	mergeSince = "8.4" // regions of 256 MiB, and merges to suit them
)

// since reports whether the version played is at least this one.
func (c Config) since(version string) bool {
	have, want := numbers(c.Version), numbers(version)
	return slices.Compare(have[:min(len(have), len(want))], want) >= 0
}

func numbers(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // "0-alpha" counts as 0
		out = append(out, n)
	}
	return out
}

// configOf is the base config of the version played.
func (c Config) configOf() map[string]any {
	items := baseConfig()
	if !c.since(mergeSince) {
		items["schedule.max-merge-region-size"], items["schedule.max-merge-region-keys"] = 20, 200000
	}
	return items
}

// baseConfig is the part of PD's configuration that a backup or restore may meet, with PD 8.5's defaults.
func baseConfig() map[string]any {
	return map[string]any{
		"schedule.max-snapshot-count":             64,
		"schedule.max-pending-peer-count":         64,
		"schedule.max-merge-region-size":          54,
		"schedule.max-merge-region-keys":          540000,
		"schedule.split-merge-interval":           "1h0m0s",
		"schedule.max-store-down-time":            "30m0s",
		"schedule.leader-schedule-limit":          4,
		"schedule.region-schedule-limit":          2048,
		"schedule.replica-schedule-limit":         64,
		"schedule.merge-schedule-limit":           8,
		"schedule.hot-region-schedule-limit":      4,
		"schedule.scheduler-max-waiting-operator": 5,
		"schedule.enable-location-replacement":    "true",
		"schedule.enable-tikv-split-region":       "true",
		"schedule.enable-one-way-merge":           "false",
		"schedule.enable-cross-table-merge":       "true",

		"replication.max-replicas":                 3,
		"replication.location-labels":              "",
		"replication.strictly-match-label":         "false",
		"replication.enable-placement-rules":       "true",
		"replication.enable-placement-rules-cache": "false",
		"replication.isolation-level":              "",

		"pd-server.min-resolved-ts-persistence-interval": "1s",
		"pd-server.flow-round-by-digit":                  3,
		"pd-server.max-gap-reset-ts":                     "24h0m0s",
		"pd-server.key-type":                             "table",
	}
}

// ttlItems are the items that PD 8.5 takes with a TTL.
func ttlItems() []string {
	return []string{
		"schedule.max-snapshot-count", "schedule.max-pending-peer-count", "schedule.max-merge-region-size",
		"schedule.max-merge-region-keys", "schedule.leader-schedule-limit", "schedule.region-schedule-limit",
		"schedule.replica-schedule-limit", "schedule.merge-schedule-limit", "schedule.hot-region-schedule-limit",
		"schedule.scheduler-max-waiting-operator", "schedule.enable-location-replacement",
		"schedule.enable-tikv-split-region",
	}
}

func defaultSchedulers() []string {
	return []string{"balance-region-scheduler", balanceLeader, hotRegion, "evict-slow-store-scheduler"}
}
