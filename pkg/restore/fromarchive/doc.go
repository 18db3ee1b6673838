// Package fromarchive makes the EBS snapshots of a restore from an archive: it derives their manifest, writes the
// archived blocks, waits until EBS has completed them, and deletes them when the restore is undone or over.
package fromarchive
