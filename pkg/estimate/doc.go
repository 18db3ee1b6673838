// Package estimate predicts how long a backup or restore takes and what AWS bills for it. The model's constants come
// from PingCAP's published tables; with enough past runs in a storage it is scaled to these, phase by phase.
// docs/estimate.md describes the model, and what of it is published and what is assumed.
//
// The package is pure: it reads no clock, and its only I/O is reading the given file of prices.
package estimate
