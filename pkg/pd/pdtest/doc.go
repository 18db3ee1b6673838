// Package pdtest is a stand-in for TiDB's placement driver, PD 8.5 or, by Config.Version, 8.1 or 7.5: a state
// machine behind PD's gRPC and HTTP API on one port, with the habits of the real one, bad ones included.
//
//   - Scheduler pauses are lost on restart and change of leader; TTL configs, service safe points, the
//     recovering mark, the id allocator and the TSO window are kept.
//   - GET schedulers is empty until the coordinator has started, and pausing "all" meanwhile answers
//     "successfully" and does nothing.
//   - TTL configs do not show in GET config; they are in etcd under /config/ttl/.
//   - base-alloc-id goes down as well as up.
//   - balance-leader moves leaders in a recovering cluster too.
//   - A service safe point below the lowest one is not accepted, without an error.
//
// The same methods serve the TiKV stand-in in process: they take the API's messages and do what the wire
// does, but see no faults and are not counted as calls of a client.
//
// Fault points are "pd." and a call. gRPC calls have the method's name: pd.Tso, pd.AllocID,
// pd.UpdateServiceGCSafePoint, pd.ScanRegions, … HTTP calls: pd.Schedulers, pd.PauseScheduler,
// pd.ResumeScheduler, pd.SetTTLConfig, pd.DropTTLConfig, pd.TTLConfig, pd.LeaseTTL, pd.SetConfig, pd.Config,
// pd.MarkRecovering, pd.UnmarkRecovering, pd.Recovering, pd.RaiseAllocID, pd.ResetTS, pd.SafePoints,
// pd.DeleteSafePoint, pd.MinResolvedTS, pd.Stores, pd.Store, pd.Regions, pd.Region, pd.Operators,
// pd.AddOperator, pd.DropOperators, pd.Members, pd.Health, pd.ClusterVersion. The code of a refusal is a
// gRPC code's name ("Unavailable"), an HTTP status ("503") or PD's own text ("[PD:server:…]…").
//
// The package is for the testbed and for tests; it is never linked into tisnap or br.
package pdtest
