// Package operator plays TiDB Operator and its tidb-backup-manager, as they were recorded, against the testbed: the
// Jobs with their init container, br's command lines and environment, the lines and files that are read from br, the
// objects that are made between its runs. What plays the Operator knows nothing of tisnap.
package operator
