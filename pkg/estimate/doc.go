// Package estimate says how long a backup or a restore takes and what AWS bills for it, before it is run. The model's
// constants are PingCAP's published tables; with enough past runs of a storage it is scaled to these, phase by phase.
// docs/estimate.md writes the model down, with what of it is published and what is assumed.
//
// The package is pure: it reads no clock and does no I/O but reading the file of prices that it is given.
package estimate
