// Package checks finds out, over TiDB's SQL port, whether a restored cluster has the data that it should: by the user's
// own statements, by TiDB's comparison of rows and indexes of tables that are chosen at random, and by checksums that
// were taken when the backup was. What it finds is returned as values. It changes nothing.
package checks
