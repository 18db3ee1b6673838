// Package suite is the contract of objstore.Store as tests. Every store and every decorator runs it, on
// stand-ins and on real ones.
package suite
