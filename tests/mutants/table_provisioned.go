package mutants

// provisionedGuards are those of gc's verdicts on volumes that carry no run.
func provisionedGuards() []Mutant {
	const file, none = "pkg/gc/provisioned.go", "TestCollect_VolumeThatIsNoOrphan_IsNotNamed"
	return []Mutant{
		in(file, "a volume that carries no run is taken for deleted", othersStay,
			"return it.decided(ActionKeep,\n\t\t\"it was made at", "return it.decided(ActionDelete,\n\t\t\"it was made at",
			"TestVolumeThatNothingInKubernetesHas_IsNamedAndKept"),
		in(file, "a volume that a pod uses is named for deletion", othersStay,
			"v.State != ebs.VolumeAvailable || ", "",
			none),
		in(file, "a volume that a run made is named twice", othersStay,
			` || v.Tags[ebs.TagRun] != ""`, "",
			"TestCollect_RestoredVolumeWithTheDriversTags_IsItsRunsAlone"),
		in(file, "a volume that a persistent volume names is named for deletion", othersStay,
			`	if j.handles[v.ID] != "" {`, "	if false {",
			none),
		in(file, "a volume whose persistent volume is there is named for deletion", othersStay,
			"		if pv == v.Tags[tagMadeForPV] {", "		if pv == \"\" {",
			none),
		in(file, "a volume of another cluster's claim is named for deletion", othersStay,
			"		case !operator1.MadeForPod(r.Cluster.Name).MatchString(claim):", "		case !operator1.MadeForPod(r.Cluster.Name).MatchString(claim) && false:",
			none),
		in(file, "a volume that a claim waits for is named for deletion", othersStay,
			`		case claimed && (pv == "" || pv == v.Tags[tagMadeForPV]):`, `		case claimed && pv == "no such":`,
			none),
		in(file, "a volume that is older than the run is named for deletion", othersStay,
			"v.CreatedAt.Before(r.Began) || ", "",
			"TestCollect_VolumeThatNoRestoreCanHaveLeft_IsNotNamed"),
		in(file, "a volume in a region that the run did not use is named for deletion", othersStay,
			` || r.Region != "" && r.Region != j.region:`, ":",
			"TestCollect_VolumeThatNoRestoreCanHaveLeft_IsNotNamed"),
		in(file, "a volume of a run that is alive is named for deletion", othersStay,
			"	if because, alive := j.busy(r); alive {", "	if because, alive := \"\", false; alive {",
			"TestCollect_OrphanOfARunThatMayBeAlive_IsLeftToIt"),
		in("pkg/gc/abort.go", "an abort fails for ever for a volume that may be another's", othersStay,
			"		if i.stray && i.Kind == KindVolume {", "		if false {",
			"TestVolumeThatNothingInKubernetesHas_IsNamedAndKept"),
		in("pkg/kube/leftovers.go", "a volume whose claim is there is named for deletion", othersStay,
			"		bound[claim.Name] = claim.Spec.VolumeName\n", "		_ = claim\n",
			"TestLeftover_MadeAgainWithoutARun_IsShownOnceTheClusterIsGone"),
	}
}
