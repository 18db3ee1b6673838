package tikvtest

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// PD is what a store asks of PD, in process. The methods are those of PD's gRPC service; ReportRegion is one
// message of its RegionHeartbeat stream and may answer with an operator (TransferLeader, SplitRegion).
type PD interface {
	IsBootstrapped(context.Context, *pdpb.IsBootstrappedRequest) (*pdpb.IsBootstrappedResponse, error)
	Bootstrap(context.Context, *pdpb.BootstrapRequest) (*pdpb.BootstrapResponse, error)
	AllocID(context.Context, *pdpb.AllocIDRequest) (*pdpb.AllocIDResponse, error)
	PutStore(context.Context, *pdpb.PutStoreRequest) (*pdpb.PutStoreResponse, error)
	StoreHeartbeat(context.Context, *pdpb.StoreHeartbeatRequest) (*pdpb.StoreHeartbeatResponse, error)
	AskBatchSplit(context.Context, *pdpb.AskBatchSplitRequest) (*pdpb.AskBatchSplitResponse, error)
	ReportMinResolvedTS(context.Context, *pdpb.ReportMinResolvedTsRequest) (*pdpb.ReportMinResolvedTsResponse, error)
	IsSnapshotRecovering(context.Context, *pdpb.IsSnapshotRecoveringRequest) (*pdpb.IsSnapshotRecoveringResponse, error)
	ReportRegion(context.Context, *pdpb.RegionHeartbeatRequest) (*pdpb.RegionHeartbeatResponse, error)
	// GetRegion is the region that holds a key; its Region is nil if PD knows none.
	GetRegion(context.Context, *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error)
	// FreshTS is a new timestamp of the oracle.
	FreshTS(context.Context) (uint64, error)
}

// Config is what a store is started with.
type Config struct {
	Addr string // to listen on; "" is 127.0.0.1:0
	// Advertise is the host by which PD knows the store, as a pod's DNS name is; "" is where the store listens.
	Advertise string

	Data    *disk.Device
	RaftLog *disk.Device
	PD      PD
	Network *Network // shared by the stores of one cluster
	Seed    int64
	Faults  *fault.Plan // points "tikv.<store id>.<RPC>"
	Version string      // reported to PD; "" is 8.5.8
	// TLS is the server's side; nil is plain text. With it a store that has not joined its cluster yet hangs up on a client
	// that shakes hands, which reads EOF or a reset.
	TLS     *tls.Config
	Labels  []*metapb.StoreLabel
	Options Options
	Logf    func(format string, args ...any) // nil discards
}

// Options are a store's intervals and sizes. Zero values are the defaults.
type Options struct {
	// ApplyLag is the longest time that a follower waits before it applies committed entries; each batch
	// waits a random part of it. Default 0.
	ApplyLag time.Duration
	// FlushInterval is how often the data device is written. Default 300 ms.
	FlushInterval time.Duration
	// TickInterval is raft's clock. Default 100 ms, 1 s in TiKV; an election starts after ElectionTicks (10) to twice as many.
	TickInterval  time.Duration
	ElectionTicks int
	// RecoverCheckInterval is the step of RecoverRegion. Default 10 s, as in TiKV.
	RecoverCheckInterval time.Duration
	// ResolvedTSInterval is how often resolved ts are advanced and reported. Default 200 ms; below 0 turns it off.
	ResolvedTSInterval time.Duration
	// StoreHeartbeatInterval and RegionHeartbeatInterval are how often PD gets a report; a change of leader or epoch
	// is reported at once. Defaults 1 s and 5 s.
	StoreHeartbeatInterval  time.Duration
	RegionHeartbeatInterval time.Duration
	// FirstHeartbeat is from a store's start to its first report to PD, which until then does not call a new store Up.
	// Default 0; 10 s in TiKV, whose first report comes with the first tick of its clock. A static store has run for long.
	FirstHeartbeat time.Duration
	// MergeCheckInterval is how often a region that merges is checked. Default 2 s, as in TiKV.
	MergeCheckInterval time.Duration
	// BootstrapRetry is how often a store in recovery mode asks for PD's region of the first key, up to 60 times. Default
	// 3 s, as in TiKV.
	BootstrapRetry time.Duration
	// LogGCInterval and LogKeep govern CompactLog: how often a leader considers it (default 3 s) and how many
	// entries it leaves (default 2048).
	LogGCInterval time.Duration
	LogKeep       uint64
	// VersionTime is how long a flashback reads each version of each key that it walks; the store's volume reads them one
	// after the other. Default 0.
	VersionTime time.Duration
	// BlockUnknownStores makes a store send nothing, until it restarts, to a store that it once wanted to send to before PD
	// knew it, as TiKV 8.5.7 and the betas of 9.0 do (tikv/tikv#19980).
	BlockUnknownStores bool
	// NoDebug makes a store without TiKV's Debug service.
	NoDebug bool
	// IgnoreFlashback makes a store answer a flashback with success and leave the rows as they are.
	IgnoreFlashback bool
	// EarlyApply is raftstore.max-apply-unpersisted-log-limit in the store's file; nil is the version's default: 1024 since
	// 8.2, 0 in 8.1. Older ones do not have it, as none has with NoEarlyApply.
	EarlyApply   *uint64
	NoEarlyApply bool
	// StaleCheckTicks is after how many ticks a hibernated peer looks at an online change. Default 300, as the 5 min of TiKV's
	// peer-stale-state-check-interval are.
	StaleCheckTicks int
	// NoStatus makes a store without a status port.
	NoStatus bool
	// AllowedCN is security.cert-allowed-cn: with TLS, only a client of this common name may change the configuration.
	AllowedCN string
	// Static makes a store without raft, keys or recovery: its regions come from BootstrapStatic and stay as they are.
	Static bool
	// CheckpointBytes is the size of a device's log above which it is rewritten. Default 16 MiB.
	CheckpointBytes int64
}

// withDefaults fills the zero values.
func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.FlushInterval, 300*time.Millisecond)
	def(&o.TickInterval, 100*time.Millisecond)
	def(&o.RecoverCheckInterval, 10*time.Second)
	def(&o.ResolvedTSInterval, 200*time.Millisecond)
	def(&o.StoreHeartbeatInterval, time.Second)
	def(&o.RegionHeartbeatInterval, 5*time.Second)
	def(&o.BootstrapRetry, 3*time.Second)
	def(&o.LogGCInterval, 3*time.Second)
	def(&o.MergeCheckInterval, 2*time.Second)
	if o.ElectionTicks == 0 {
		o.ElectionTicks = 10
	}
	if o.StaleCheckTicks == 0 {
		o.StaleCheckTicks = 300
	}
	if o.LogKeep == 0 {
		o.LogKeep = 2048
	}
	if o.CheckpointBytes == 0 {
		o.CheckpointBytes = 16 << 20
	}
	return o
}
