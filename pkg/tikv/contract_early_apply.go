package tikv

import "context"

// EarlyApply is a store's raftstore.max-apply-unpersisted-log-limit: how many entries a leader may apply that a
// majority has persisted but its own raft log has not. TiKV has had the setting since 8.1, with default 1024 since 8.2
// (tikv/tikv#16626, #16717).
type EarlyApply struct {
	// Known is whether the store has the setting; without it, it never applies early.
	Known bool
	Limit uint64 // 0 is off
}

// EarlyApplier reads and sets, at a store's status address (host:port), whether its leaders apply early.
type EarlyApplier interface {
	// EarlyApply reads the running store's setting. Unready if the status port does not answer; Denied if the store
	// rejects the client's certificate (security.cert-allowed-cn).
	EarlyApply(ctx context.Context, statusAddress string) (EarlyApply, error)
	// SetEarlyApply sets the limit of the running store but not in its file: a restart reverts it. After an error the
	// limit may have changed or not: read it again. Peers adopt it at their next tick.
	SetEarlyApply(ctx context.Context, statusAddress string, limit uint64) error
	// EarlyAppliers returns how many of the store's leaders may apply early now, from the gauge
	// tikv_raft_enable_unpersisted_apply_regions; 0 without the gauge. A peer may be ahead of its log even at 0: only
	// RaftState shows that.
	EarlyAppliers(ctx context.Context, statusAddress string) (int, error)
}
