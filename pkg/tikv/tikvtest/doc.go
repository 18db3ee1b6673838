// Package tikvtest is the TiKV stand-in: a small multi-raft store on volumes that keeps TiKV's rules, the
// bad habits included.
//
// A Store is a process. What it knows is on its two devices, one for the raft log and one for the data;
// everything else is gone at a restart. Each region is a raft group (go.etcd.io/raft); an entry is on the
// local raft-log device before it is acknowledged, and before it is applied unless a leader applies early
// (early_apply.go), and the data device is flushed only now and then, so a crash or a snapshot of the volumes
// leaves applied positions behind that the log makes good. While the log's volume stalls (stall.go), data that
// were applied early get ahead of the log, and stay so in a snapshot. Stores of one cluster talk raft through a Network in process; clients talk real gRPC.
//
// Members change by ChangePeers, one or several at once in a joint state; new ones get a snapshot. Unlike in TiKV's raft-rs
// a learner does not lead, even if RecoverRegion asks it to: go.etcd.io/raft does not let it campaign. A member may be a
// witness. Not here: coprocessor. A split is right-derived, as in TiKV: the region that is split keeps the right part.
//
// Fault points are "tikv.<store id>." and the RPC's name (KvGet, SplitRegion, ReadRegionMeta, RecoverRegion,
// WaitApply, RegionInfo, SuspendImportRPC, CheckPendingAdminOp, PrepareSnapshotBackup, ...), and besides
// PrepareSnapshotBackup.UpdateLease, .WaitApply and .Finish for each message of the stream,
// PrepareSnapshotBackup.WaitApply.Region for each region waited for, StoreHeartbeat, RegionHeartbeat and
// ResolvedTS. A Before rule's Code is a gRPC code's name ("Aborted") or a region error's field name
// ("server_is_busy", "epoch_not_match", ...).
//
// The files: wal.go, raft_log.go and kv_engine.go are the storage; peer.go, raft_*.go and apply_worker.go
// the replicated log; change_peers.go, move_peer.go and snapshot.go its members; kv_*.go, max_ts.go, flashback.go and split.go the key-value service; prepare_service.go,
// import_service.go and recover_service.go what a backup and a restore use.
package tikvtest
