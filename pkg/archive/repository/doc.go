// Package repository keeps an archive repository's objects in object storage: it creates and unlocks a repository,
// writes packs, map segments and archives, and reads the blocks of a volume's map in ranges of packs.
//
// Nothing is overwritten but an archive, by one that restores the same. An archive is committed by its one
// object, after all that it refers to; packs and segments that no archive refers to are garbage.
package repository
