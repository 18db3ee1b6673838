// Package leak makes whole backups, restores and copies under random faults, lost answers and kills above all, and
// proves that EC2 holds afterwards exactly the snapshots and volumes that sealed manifests and clusters name.
package leak
