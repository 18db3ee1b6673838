//go:build !linux

package repository

// preferHugePages does nothing: this system has no such advice.
func preferHugePages([]byte) {}
