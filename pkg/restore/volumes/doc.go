// Package volumes makes the EBS volumes of a restore from the snapshots of a backup: it plans them, checks what could
// refuse them, asks for them, waits for them, replaces those that EC2 loses, and deletes them when the restore is
// undone.
package volumes
