package mutants

func fencedGuards() []Mutant {
	return []Mutant{
		in("pkg/runlock/check.go", "an answer of the lock that waited for a suspended process counts", oneRun,
			"			if l.confirmed.fresh(time.Now()) {", "			if true {",
			"TestFence_SuspendedWhileTheAnswerCame_AsksAgain"),
		in("pkg/runlock/fence.go", "a process that wakes up in a step sends its next call", oneRun,
			"	if f.Current() == nil {", "	if f.Current() == nil || f.Loss() == nil {",
			"TestFence_Recheck_AsksOnlyAfterASuspension"),
		in("pkg/fenced/fenced.go", "nobody is asked before a call", oneRun,
			"	if !ok {", "	if !ok || ok {",
			"TestCheck_AsksTheContext"),
		in("pkg/phase/step.go", "the calls of a step do not ask its fence", oneRun,
			"s.Do(fenced.With(ctx, s.Fence), scope)", "s.Do(fenced.With(ctx, nil), scope)",
			"TestStep_Fence_IsAskedByDoAndNotByUndo"),
		in("pkg/ebs/call.go", "EC2 is called by a process whose lock is lost", oneRun,
			"			if err := fenced.Check(ctx); err != nil {", "			if err := fenced.Check(ctx); err != nil && false {",
			"TestFenced_LockLost_NothingIsChanged"),
		in("pkg/pd/rest.go", "PD is called by a process whose lock is lost", oneRun,
			"			if err := fenced.Check(ctx); err != nil {", "			if err := fenced.Check(ctx); err != nil && false {",
			"TestFenced_LockLost_NothingIsChanged"),
		in("pkg/kube/ask_first.go", "Kubernetes is called by a process whose lock is lost", oneRun,
			"		if err := fenced.Check(r.Context()); err != nil {", "		if err := fenced.Check(r.Context()); err != nil && false {",
			"TestFenced_LockLost_NothingIsChanged"),
		in("pkg/tikv/ask_first.go", "a stream to a store is opened by a process whose lock is lost", oneRun,
			"			return nil, err", "			return open(ctx, desc, conn, method, options...)",
			"TestFenced_LockLost_NothingIsSent"),
		in("pkg/objstore/ask_first.go", "an object is written by a process whose lock is lost", oneRun,
			"		return \"\", err\n	}\n	return a.Store.Create", "		_ = err\n	}\n	return a.Store.Create",
			"TestAskFirst_LockLost_WritesNothing"),
	}
}
