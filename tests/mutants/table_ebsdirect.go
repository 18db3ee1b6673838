package mutants

// directGuards are those by which blocks are read and written as they are, at the rate that AWS allows.
func directGuards() []Mutant {
	const asItIs = "data whose digest is wrong are never those of a block"
	const belowLimits = "the limits of the account and of a snapshot are used, and not exceeded"
	return []Mutant{
		in("pkg/ebsdirect/read.go", "a block that was damaged on its way is taken", asItIs,
			"sum.encoded() != aws.ToString(out.Checksum) {", "false {",
			"TestRead_DamagedOnItsWay_IsReadAgainAndNeverReturned"),
		in("pkg/ebsdirect/read.go", "a block's token expires while the list is read", asItIs,
			"				if c.old(b) {\n					from", "				if false {\n					from",
			"TestBlocks_ListTakesDays_TokensStayYoung"),
		in("pkg/ebsdirect/call.go", "a run without its lock writes a snapshot", oneRun,
			"	if op.writes {", "	if false {",
			"TestTarget_LockIsLost_NothingIsSent"),
		in("pkg/ebsdirect/limiter.go", "a rate is halved by each of the calls that were throttled at it", belowLimits,
			"	if sent.Before(l.cut.Add(settle)) {", "	if false {",
			"TestLimiter_Throttled_HalvesOnceForCallsOfOneRate"),
		in("pkg/ebsdirect/governor.go", "a snapshot that is throttled slows all others", belowLimits,
			"	case slow == snapshot && own != nil:", "	case false:",
			"TestGovernor_OneSnapshotIsThrottled_OthersAreNot"),
	}
}
