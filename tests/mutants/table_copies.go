package mutants

// copyGuards are those by which a copy is made once, and a lock is never weakened.
func copyGuards() []Mutant {
	const once = "what a lost answer may have made is looked up, and not made twice"
	const extendOnly = "a lock is made stronger or longer, and never the reverse"
	const inTurn = "copies are begun as EC2 makes them: one of a volume, and no more than it takes"
	return []Mutant{
		in("pkg/copyplan/plan.go", "two copies of a volume run at a time", inTurn,
			"running[c.ID] || done[c.ID] || busy[c.Volume] {", "running[c.ID] || done[c.ID] {",
			"TestNext_UntilAllAreDone_KeepsTheRules"),
		in("pkg/copyplan/plan.go", "more copies are begun than there are slots for", inTurn,
			"		if free <= 0 {", "		if false {",
			"TestNext_UntilAllAreDone_KeepsTheRules"),
		in("pkg/ebs/copies.go", "a copy whose answer was lost is asked for again", once,
			`verb: "copy snapshot", action: ActionCopySnapshot, tagged: true, queue`, `verb: "copy snapshot", action: ActionCopySnapshot, tagged: true, repeatable: true, queue`,
			"TestCopySnapshot_AnswerLost_FoundByTagAndNotRepeated"),
		in("pkg/ebs/copies.go", "a copy does not say what it is a copy of", once,
			"	tags[TagCopiedFrom] = string(req.Snapshot)", "	delete(tags, TagCopiedFrom)",
			"TestCopySnapshot_AnswerLost_FoundByTagAndNotRepeated"),
		in("pkg/ebs/lock_snapshot.go", "a lock that lasts long enough is replaced by a shorter one", extendOnly,
			"	case !stronger && !l.ExpiresAt.Before(until):", "	case !stronger && l.ExpiresAt.Equal(until):",
			"TestLockSnapshot_Governance_OnlyLonger"),
		in("pkg/ebs/lock_snapshot.go", "a stronger lock ends earlier than the one before", extendOnly,
			"	case l.ExpiresAt.After(until):", "	case false:",
			"TestLockSnapshot_Governance_OnlyLonger"),
		in("pkg/ebs/lock_snapshot.go", "a lock in compliance mode is said to be removed", extendOnly,
			`(lock.Snapshot == "" || !lock.Holds()) {`, `(lock.Snapshot == "" || lock.Holds()) {`,
			"TestLockSnapshot_Compliance_CoolsOffThenStays"),
	}
}
