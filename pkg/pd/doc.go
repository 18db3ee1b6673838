// Package pd is what tisnap needs from TiDB's placement driver: stores and regions, the timestamp oracle,
// schedulers and their limits, service GC safe points, and the recovery marks.
//
// contract.go holds the contract, client.go and its neighbours the adapter (pd/client over gRPC and PD's
// HTTP API), error_table.go the kinds. The stand-in is in pdtest.
package pd
