package mutants

func lockGuards() []Mutant {
	return []Mutant{
		in("pkg/runlock/lock.go", "a lock that another run holds is taken", oneRun,
			"	case old.Held(start) && version != dead:", "	case false:",
			"TestAcquire_Held_NamesOwnerAndTimes"),
		in("pkg/runlock/lock.go", "a renewal writes over the next owner's lock", oneRun,
			"	case current.Nonce != next.Nonce:", "	case false:",
			"TestAcquire_Expired_TakesOverAndFencesTheOldOwner"),
		in("pkg/runlock/observe.go", "a lock is freed that was renewed after its owner was taken for dead", oneRun,
			"	_, err := write(ctx, store, &next, f.version)", "	_, now, _ := Read(ctx, store, next.Cluster)\n	_, err := write(ctx, store, &next, now)",
			"TestFree_OnlyTheLockThatWasFoundDead"),
		in("pkg/runlock/record.go", "a successor's lock is broken by somebody who read the one before", oneRun,
			"	if r.Epoch != epoch {", "	if false {",
			"TestBreak_OlderEpoch_LeavesTheSuccessorsLock"),
		in("pkg/runlock/fence.go", "a run whose lock was taken over does not learn of it before it undoes", oneRun,
			"	case err == nil && (record.Owner.Run != f.owner.Run ||", "	case err == nil && (record.Owner.Run != record.Owner.Run ||",
			"TestFence_TakenOver_IsReadFromTheLock"),
		in("pkg/runlock/watch.go", "a lock is taken over although its owner renews late", oneRun,
			"	for time.Since(start) <= watchedRenewals*every {", "	for false {",
			"TestTake_OwnerRenewsLate_IsConflict"),
		in("pkg/runlock/check.go", "an owner that is cut off continues when its lock may be taken", oneRun,
			"	return younger(l.confirmed.renew, trustedRenewals*l.every/2, now)", "	return younger(l.confirmed.renew, 100*l.every, now)",
			"TestFence_OwnerCutOff_ChangesNothingOnceItsLockMayBeTaken"),
		in("pkg/runlock/fence.go", "what may be another run's is undone when the lock cannot be read", oneRun,
			"held != nil && !held.lock.trusted(time.Now()):", "held != nil && false:",
			"TestFence_Unreadable_MayBeTakenOnceItWasNotRenewed"),
		in("pkg/runlock/keep.go", "a lock that is lost does not end the run", oneRun,
			"		case failure.Is(err, failure.Conflict):\n			return err", "		case failure.Is(err, failure.Conflict):\n			wait = interval",
			"TestKeep_TakenOver_EndsWithTheNewOwnerAsCause"),
	}
}
