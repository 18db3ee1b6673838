package repository

import "syscall"

// preferHugePages asks for them. A system without them, or with other ones, refuses, and all works as well.
func preferHugePages(room []byte) { _ = syscall.Madvise(room, syscall.MADV_HUGEPAGE) }
