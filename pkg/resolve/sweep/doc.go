// Package sweep makes one kind of call for every region of a key space, each to the store that leads the region:
// as many at once as each store can take, again after errors that pass, until the calls that succeeded cover
// every key.
package sweep
