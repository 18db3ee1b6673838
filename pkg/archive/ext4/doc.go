// Package ext4 finds the blocks of a volume that its ext4 file system does not use, so that an archive need not read
// them: EBS keeps what was deleted for as long as nothing else is written there.
//
// A block counts as free only if no mount can read it. A volume that was copied while it was mounted has a journal
// that the next mount replays, so the block bitmaps, their descriptors and the superblock are taken as that mount
// would have them: from their last copy in a committed transaction that no later one revokes, or else from their place
// on disk. Going by the bitmaps on disk alone would lose files and no fsck would notice. Everything that ext4 itself
// keeps outside of files (superblocks, descriptors with their reserve, bitmaps, inode tables) is in use, whatever a
// bitmap has.
//
// Anything unusual means that no block is free, and the Map gives the reason: no ext4 file system, a feature that
// this package does not know, a checksum or count that is wrong, errors that the file system or its journal records,
// a journal on another device or with fast commits, a resize under way.
//
// # Increments
//
// Whoever leaves out free blocks has to keep this rule. An archive that reads only what changed since a base takes all
// other blocks from the base's map. A block that was free in the base, and so was left out of it, may be in use now
// without having changed since the base's snapshot: a file can get a block of old data back (fallocate, an allocation
// that is not written yet). Therefore the blocks that were free in the base and are not free now have to be read from
// the full list of the snapshot's blocks, not from the list of changed ones. Otherwise they are restored as zeros.
package ext4
