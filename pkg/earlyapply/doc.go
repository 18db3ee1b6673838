// Package earlyapply turns off TiKV's early apply while a cluster's volumes are cut, proves that no replica is ahead of
// its raft log, and restores the stores' settings.
//
// Since TiKV 8.2 a leader applies entries that a majority has persisted before its own log has them
// (raftstore.max-apply-unpersisted-log-limit). If its volumes are cut in between, its data have writes that no log in
// the backup has, and that no raft group can undo. See docs/early-apply.md.
package earlyapply
