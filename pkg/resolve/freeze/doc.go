// Package freeze keeps PD from moving the leaders and peers of a cluster that recovers, and GC from the versions that
// it is flashed back to, until both are put back.
package freeze
