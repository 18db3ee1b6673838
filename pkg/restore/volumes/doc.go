// Package volumes makes a restore's EBS volumes from a backup's snapshots: it plans them, checks for refusals, requests
// them, waits for them, replaces those that EC2 loses, and deletes them when the restore is undone.
package volumes
