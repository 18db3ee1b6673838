// Package resolve brings crash-consistent stores to one consistent cluster at the backup ts. It is a runbook: collect
// what every store has, plan the leaders (package plan), keep PD from moving them (package freeze), recover (make them
// lead, and let all apply their logs), and flash back every key (package sweep).
//
// Only the steps, in steps.go and leave.go, see the whole run. Each makes a part from what the earlier parts returned:
// gathering returns the metas, plan.Make the plan, leading the regions with their leaders, which flashback sweeps along
// with the states. A run that resumes begins with the record, and recovery keeps the leaders meanwhile.
package resolve
