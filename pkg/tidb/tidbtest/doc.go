// Package tidbtest is a stand-in for a TiDB server's SQL port. What it answers is read from the keys of
// the cluster that it belongs to, at a timestamp, so that a cluster that was put together from copies of different moments
// shows it as a real one would.
//
// Tables are in TiDB's layout: a row is at t{table id}_r{handle}, an index's entry at t{table id}_i{index id}{value}{handle}.
// The values and the schema are encoded in JSON instead of TiDB's own formats, and tables have an integer key, text
// columns and at most one index.
//
// The statements: BEGIN, COMMIT, ROLLBACK, SET of tidb_snapshot, SET GLOBAL of some switches, SELECT of VERSION() and
// @@tidb_current_ts, the list of tables from information_schema, ADMIN CHECK TABLE, ADMIN CHECKSUM TABLE, and SELECT of
// columns, COUNT(*), SUM, MIN and MAX from one table, with at most one comparison. Others get TiDB's error for bad
// syntax. As in TiDB:
//
//   - a session with tidb_snapshot reads at that timestamp, and refuses writes with error 1105;
//   - START TRANSACTION READ ONLY is refused with error 1235;
//   - SET of an unknown variable is refused with error 1193, SET in the wrong scope with 1228 or 1229, and a switch that
//     would be neither ON nor OFF with 1231;
//   - ADMIN CHECK TABLE fails with error 8223 or 8133 if rows and entries disagree.
//
// The switches are kept by the server, not in the cluster's keys. Nothing else can be written by SQL: Table makes the
// keys, which the test writes by a transaction of its own.
//
// Fault points are tidb.Connect, tidb.Tables, tidb.AdminCheckTable, tidb.AdminChecksumTable, tidb.SetGlobal and
// tidb.Query. A Before rule's code is an error number ("8223"); without one it is 9005, Region is unavailable.
package tidbtest
