// Package exportertest fills storages for tests of the exporter and of its page: with backups, runs, locks and journals as
// the program leaves them.
package exportertest
