// Package operator holds the reported failures of a restore by TiDB Operator, as br as its toolImage meets them: the
// Operator's recorded Jobs run the shipped program against the testbed.
package operator
