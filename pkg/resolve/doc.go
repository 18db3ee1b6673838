// Package resolve brings crash-consistent stores to one consistent cluster at the backup ts. It is a runbook, a
// file a step: collect what every store holds, plan the leaders (package plan), recover (make them lead, and let
// all apply their logs), and flash every key back (package sweep).
package resolve
