package repository

import "syscall"

// preferHugePages asks for pages that take one fault each to fill, and one look-up to write past the page cache, for
// 512 of the usual. A system without them, or with other ones, refuses, and all works as well.
func preferHugePages(room []byte) { _ = syscall.Madvise(room, syscall.MADV_HUGEPAGE) }
