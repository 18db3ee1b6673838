// Package freeze keeps PD from moving leaders and peers of a recovering cluster, and GC from removing the versions of
// the backup ts, until both are restored.
package freeze
