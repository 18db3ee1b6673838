// Package earlyapply keeps TiKV's leaders from applying what their own raft logs do not have while a cluster's volumes
// are cut, proves of each replica that it is not ahead of its log, and puts the stores' settings back.
//
// A leader of TiKV 8.2 and newer applies entries that a majority has persisted and its own log has not
// (raftstore.max-apply-unpersisted-log-limit). Its volumes may be cut in between: then its data have writes that no log
// of the backup explains, and that no raft group takes back. See docs/early-apply.md.
package earlyapply
