// Package format reads and writes the objects of an archive repository: repo.json, packs, map segments and archives, as
// docs/archive-format.md specifies them. It does no I/O of its own.
//
// Whatever a storage returns for an object, a reader gets what was written under that name, in that repository, or an
// error that names the object: every byte is authenticated before it is interpreted, except for the headers and
// repo.json's slots and lengths, which are checked. Memory is bounded by the format's limits, not by what an object
// claims.
package format
