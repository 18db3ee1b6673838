// Package ebsdirect reads and writes EBS snapshots block by block, by the EBS direct APIs, in tisnap's words: list the
// blocks of a snapshot or those that changed since another, read one, make a snapshot of given blocks.
//
// The contract is in contract.go, the adapter over aws-sdk-go-v2 in client.go, read.go and write.go, and the one table
// that turns the error codes and reasons into failure kinds in error_table.go. governor.go keeps all calls below the
// limits of the account and of each snapshot. The stand-in is beside it in ebsdirecttest. No SDK type leaves the
// package.
package ebsdirect
