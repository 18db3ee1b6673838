//go:build !linux

package volume

import "os"

// openDirect returns nil: this system has no direct reads and writes of this kind.
func openDirect(string, int) *os.File { return nil }
