// Package tikv is what tisnap needs from TiKV stores: leases that keep a store's regions still, import
// suspension, recovery mode's RecoverData service, and flashback.
//
// contract.go holds the contract, client.go and its neighbours the adapter over gRPC and kvproto,
// error_table.go the kinds. The stand-in, a small multi-raft store on volumes, is in tikvtest.
package tikv
