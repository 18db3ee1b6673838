// Package lockset locks the snapshots of a sealed backup as one set, so that none of them can be deleted: all of them
// until one date, and never for a shorter time than before. What it could not lock it reports, snapshot by snapshot; it
// deletes nothing, and the same call finishes a set that is locked in part.
package lockset
