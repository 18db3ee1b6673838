// Package tidb is what tisnap needs of a TiDB server's SQL port, in tisnap's words: which tables there are, whether
// their rows and indexes agree, what their checksums are, and the answer to a statement of the user's that only reads.
package tidb
