// Package brcompat is br's command line, as far as TiDB Operator calls it for volume snapshots: the same flags, files,
// log lines and exit codes over tisnap's own use cases.
package brcompat
