package kube_test

import (
	"maps"
	"testing"
)

// contract is what an API server has to do for tisnap. The stand-in and the real one pass the same cases.
func contract() map[string]func(*testing.T, system) {
	cases := map[string]func(*testing.T, system){
		"discovery names TidbCluster":                                    discoveryNamesTidbCluster,
		"a cluster that is missing is NotFound":                          missingClusterIsNotFound,
		"a cluster is made once, and by one run":                         clusterIsMadeOnce,
		"what the source's object holds is kept":                         clusterIsKept,
		"a dry run makes nothing":                                        dryRunMakesNothing,
		"a dry run finds claims that are left":                           dryRunFindsClaims,
		"a dry run names a storage class that is missing":                dryRunNamesStorageClass,
		"a dry run reports what a quota refuses":                         dryRunReportsQuota,
		"a dry run reports what a policy refuses":                        dryRunReportsPolicy,
		"a dry run reports that the namespace ends":                      dryRunReportsTerminating,
		"a volume is bound to its claim, once":                           volumeIsBound,
		"a volume whose claim was deleted is bound again":                volumeIsBoundAgain,
		"a volume of another run is a conflict":                          volumeOfAnotherRun,
		"what was restored is deleted, and nothing else":                 restoredIsDeleted,
		"a target that was made is deleted with all that is its own":     targetIsDeleted,
		"a write of an old version is a conflict, and the adapter's not": oldVersionIsConflict,
		"a deletion is of the object that was seen":                      deletionIsOfThatObject,
		"a watch shows each change":                                      watchShowsChanges,
		"selectors choose":                                               selectorsChoose,
		"a permission that is missing is named":                          permissionIsNamed,
		"answers to requests":                                            answersToRequests,
		"what an owner owns goes with it":                                dependentsGo,
		"versions and uids are kept":                                     versionsAndUIDsAreKept,
		"patches are applied":                                            patchesAreApplied,
		"what is invalid is refused":                                     invalidIsRefused,
		"the status is apart":                                            statusIsApart,
		"a watch list ends with a bookmark":                              watchListEndsWithABookmark,
		"discovery lists what is served":                                 discoveryListsWhatIsServed,
	}
	maps.Copy(cases, jobsContract())
	return cases
}

func TestContract_StandIn(t *testing.T) {
	t.Parallel()
	for name, check := range contract() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, openStandIn(t))
		})
	}
}

func TestContract_RealControlPlane(t *testing.T) {
	t.Parallel()
	needsPlane(t)
	for name, check := range contract() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, openReal(t))
		})
	}
}
