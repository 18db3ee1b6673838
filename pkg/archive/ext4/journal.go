package ext4

// journalMagic is what the journal's own blocks begin with.
const journalMagic = 0xc03b3998

// recover finds the copies of blocks that a mount would replay.
func (d *disk) recover(sb superblock) error {
	if sb.recover {
		return oddf("the file system was mounted, and its journal is not handled yet")
	}
	return nil
}
