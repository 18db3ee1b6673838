// Package archivebench measures archives of volumes beside what other backup programs make of the same bytes: processor
// time, memory and size, each with encryption on, and each only once its restore was compared byte for byte.
package archivebench
