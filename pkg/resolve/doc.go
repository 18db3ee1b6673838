// Package resolve brings crash-consistent stores to one consistent cluster at the backup ts. It is a runbook: collect
// what every store holds, plan the leaders (package plan), keep PD from moving them (package freeze), recover (make
// them lead, and let all apply their logs), and flash every key back (package sweep).
//
// The steps, in steps.go and leave.go, are all that sees the whole run. Each makes a part, with what that needs of the
// parts before it: gathering returns the metas, plan.Make the plan, leading the regions as they are led, which
// flashback sweeps beside the verdicts on them. The record is what a run that resumes begins with, and recovery keeps
// the leaders meanwhile.
package resolve
