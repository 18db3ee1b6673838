package mutants

import (
	"path"
	"slices"
)

// All is the table, every guard of it.
func All() []Mutant {
	return slices.Concat(
		holdGuards(), forwardGuards(), operator2Guards(), changes2Guards(), backupGuards(), phaseGuards(), gcGuards(), provisionedGuards(), journalGuards(), deleteGuards(), lockGuards(), brokenLockGuards(), fencedGuards(), takenOverGuards(), restoreGuards(), resolveGuards(), marksGuards(), earlyApplyGuards(), publishedGuards(), markReadingGuards(), outsideGuards(),
		recordGuards(), brGuards(), brCommandGuards(), robustGuards(), foundGuards(), doctorGuards(), reportingGuards(), reportGuards(), callGuards(), packageGuards(), kubeGuards(), identityGuards(), aheadGuards(), rebuildGuards(), settingsGuards(), archiveGuards(), importGuards(), reachGuards(), unitGuards(), workerGuards(), claimGuards(), claimFillGuards(), fromArchiveGuards(), wayGuards(), archivingGuards(), fleetGuards(), rewriteGuards(), repairGuards(), slotGuards(), measuringGuards(), keptGuards(), verifiedGuards(), freeGuards(), directGuards(), copyGuards(), copyPlanGuards(), archiveTierGuards(), lockSetGuards(), adoptGuards(), drillGuards(), drillChoiceGuards(), drillRunGuards(),
	)
}

// The design's list of what must hold at all times, as the rows name it.
const (
	releasedOrReported = "no path leaves a cluster held without reporting it, with the command that releases it"
	knownAndKept       = "no snapshot or volume exists that no journal knows; nothing attached or sealed is deleted"
	zeroIsAnError      = "zero stores, zero volumes, zero regions is an error, never success"
	lostAnswer         = "an answer that is lost may have happened: look it up before trying again"
	errorTable         = "one table per adapter maps errors to what a caller can do next; every step has a deadline"
	unknownIsKept      = "what the Operator or br wrote and is not understood is kept"
	noSecrets          = "no secret in logs, argv, manifests or reports"
	provenHold         = "the hold is proven unbroken over the whole cut, or the set is thrown away"
	oneRun             = "one run at a time has a cluster, and one that lost it touches nothing more"
	takenBack          = "a region that is not flashed back has no change to lose"
	exactlyOnce        = "the regions tile the key space exactly, by the newest view of each"
	sealedIsWhole      = "only a backup that is sealed, and whole, can be restored"
	othersStay         = "what others have paused, tagged or made stays as it is"
	undoneInOrder      = "a failed run undoes what it did, first what affects a live cluster"
	provenServer       = "a server of the cluster proves the name by which the cluster knows it"
	nothingFromOutside = "what others wrote into a storage, or ask of the page, does nothing"
	noneAhead          = "no restore ends well with a replica whose data are ahead of the log"
	journalledFirst    = "an intent is durable before its effect is made"
	askedIsDone        = "what a user asks for is done or refused, never silently left out"
)

// heldBy is the row with tests of another package, which uses what the guard is in.
func (m Mutant) heldBy(folder string) Mutant {
	m.Package = folder
	return m
}

// in makes the row of a guard that tests of its own package hold.
func in(file, name, promise, from, to, tests string) Mutant {
	return Mutant{Name: name, Promise: promise, File: file, Old: from, New: to, Package: path.Dir(file), Tests: "^(" + tests + ")$"}
}
