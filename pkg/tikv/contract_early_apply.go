package tikv

import "context"

// EarlyApply is what a store says of raftstore.max-apply-unpersisted-log-limit: how many entries a leader may apply
// that a majority has persisted and its own raft log has not. TiKV has the setting since 8.1, and 1024 is its default
// since 8.2 (tikv/tikv#16626, #16717).
type EarlyApply struct {
	// Known is whether the store has the setting; one without never applies early.
	Known bool
	Limit uint64 // 0 is off
}

// EarlyApplier reads and sets, at a store's status address (host:port), whether its leaders apply early.
type EarlyApplier interface {
	// EarlyApply reads the setting as the running store has it. Unready if the status port does not answer; Denied if
	// the store refuses who asks (security.cert-allowed-cn).
	EarlyApply(ctx context.Context, statusAddress string) (EarlyApply, error)
	// SetEarlyApply sets the limit of the running store and not of its file: a restart brings the configured value
	// back. An error says nothing about whether the store has changed it: read it again. The peers adopt it at their
	// next tick.
	SetEarlyApply(ctx context.Context, statusAddress string, limit uint64) error
	// EarlyAppliers is how many of the store's leaders may apply early now, by the gauge
	// tikv_raft_enable_unpersisted_apply_regions; 0 where the store has no such gauge. 0 does not say that no peer is
	// ahead of its log: only RaftState does.
	EarlyAppliers(ctx context.Context, statusAddress string) (int, error)
}
