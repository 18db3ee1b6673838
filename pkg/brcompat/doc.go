// Package brcompat implements the part of br's command line that TiDB Operator uses for volume snapshots: the same
// flags, files, log lines and exit codes on top of tisnap's own use cases.
package brcompat
