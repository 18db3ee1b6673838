package reach

import (
	"errors"
	"syscall"
)

// noRoute reports whether this machine has no route to an address.
func noRoute(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}
