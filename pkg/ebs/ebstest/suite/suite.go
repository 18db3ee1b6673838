// Package suite is the contract of package ebs as tests. It runs against the stand-in in every build, and
// against other servers that speak EC2's protocol where one is at hand.
package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Client is what is tested.
type Client interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Account
	ebs.Performance
	ebs.Inventory
	ebs.Tagger
	ebs.Copies
	ebs.Sharing
	ebs.Locker
	ebs.Encryption
	AccountID(ctx context.Context) (string, error)
}

// Subject is a client with an account that is the test's own.
type Subject struct {
	Client Client
	Zone   cluster.Zone
	// Run keeps the tags of tests in one account apart.
	Run string
	// Instance starts an instance with a boot volume and so many empty 10 GiB data volumes.
	Instance func(t *testing.T, volumes int) (cluster.InstanceID, []cluster.VolumeID)
	// Away is the account in another region, and Guest another account there.
	Away, Guest Client
	// Archive asks EC2 to move a completed snapshot to the archive tier, and Unarchive to bring it back for good.
	Archive, Unarchive func(t *testing.T, id cluster.SnapshotID)
	// Key makes a KMS key in the client's region, and Disable disables one.
	Key     func(t *testing.T) (arn string)
	Disable func(t *testing.T, arn string)
	// Lacks names what the server is known not to do as EC2 does; tests of these are skipped.
	Lacks []Trait
	// Patience bounds each wait.
	Patience time.Duration
}

// Trait is a part of EC2's behaviour that some servers lack.
type Trait string

// The traits that emulators were seen to lack.
const (
	TraitClientToken Trait = "client token"
	TraitExclusion   Trait = "excluded volumes"
	TraitEscapes     Trait = "escaped wildcards in filters"
	TraitLimits      Trait = "limits in the answer of a dry run"
	TraitQuotas      Trait = "service quotas of EBS"
	TraitFastRestore Trait = "fast snapshot restore"
	TraitStatus      Trait = "volume status"
	TraitLocks       Trait = "snapshot locks"
	TraitRate        Trait = "initialization rate"
	TraitAccounts    Trait = "snapshots shared between accounts"
	TraitTiers       Trait = "archive tier"
	TraitArchived    Trait = "refusals of archived snapshots"
	TraitKeyStates   Trait = "refusals of disabled keys"
)

// Traits lists them all.
func Traits() []Trait {
	return []Trait{
		TraitClientToken, TraitExclusion, TraitEscapes, TraitLimits, TraitQuotas,
		TraitFastRestore, TraitStatus, TraitLocks, TraitRate, TraitAccounts, TraitTiers, TraitArchived,
		TraitKeyStates,
	}
}

func (s Subject) needs(t *testing.T, traits ...Trait) {
	t.Helper()
	for _, lacking := range s.Lacks {
		for _, needed := range traits {
			if lacking == needed {
				t.Skipf("the server lacks: %s", lacking)
			}
		}
	}
}

// bounded ends with the patience: a server that lacks a call may answer it with nonsense for ever.
func (s Subject) bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	t.Cleanup(cancel)
	return ctx
}

func (s Subject) eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	require.Eventually(t, check, s.Patience, 10*time.Millisecond, what)
}

// Run runs the whole contract. New is called once for each test.
func Run(t *testing.T, create func(t *testing.T) Subject) {
	tests := map[string]func(*testing.T, Subject){
		"Cut_AllVolumes_OneSet":                  cutAll,
		"Cut_WantedVolumes_ExactlyThese":         cutWanted,
		"Cut_NotAttached_Conflict":               cutMissing,
		"Cut_UnknownInstance_NotFound":           cutNowhere,
		"Describe_UnknownAmongKnown_LeftOut":     describeUnknown,
		"Find_ByTags_AllMustMatch":               findByTags,
		"Find_ByTagsWithWildcards_Literal":       findByOddTags,
		"Find_NoTags_Usage":                      findNothing,
		"Delete_Twice_Succeeds":                  deleteTwice,
		"PutTags_OnASnapshot_AddedToTheOthers":   putTags,
		"PutTags_UnknownResource_NotFound":       putTagsNowhere,
		"CreateVolume_FromSnapshot_AsAsked":      createVolume,
		"CreateVolume_SameToken_SameVolume":      createVolumeTwice,
		"CreateVolume_TokenForOthers_Conflict":   createVolumeMismatch,
		"CreateVolume_UnknownSnapshot_NotFound":  createVolumeNowhere,
		"DeleteVolume_Attached_ConflictAndStays": deleteAttached,
		"Probe_Allowed_NoErrorNoEffect":          probeAllowed,
		"Zones_Listed_HoldsOwn":                  zonesListed,

		"Attachments_TwoInstances_InOneLook":     attachments,
		"Attachments_UnknownInstance_NotFound":   attachmentsNowhere,
		"Cut_TooManyTags_UsageAndNothingMade":    cutTags,
		"Describe_MoreThanABatch_All":            describeMany,
		"Inventory_TaggedByRun_All":              inventory,
		"Usage_NewVolume_Counted":                usage,
		"Quotas_OfEBS_Told":                      quotas,
		"MaxIOPS_OfOneVolume_Reported":           maxIOPS,
		"CreateVolume_WithKey_EncryptedByIt":     createEncrypted,
		"CreateVolume_InitializationRate_Filled": createRated,
		"CreateVolume_RateOutOfBounds_Usage":     createRatedWrong,
		"Modify_Volume_NewParametersHold":        modify,
		"Modify_Smaller_UsageAndStays":           modifySmaller,
		"FastRestore_OnAndOff_Described":         fastRestore,
		"Initializations_EachVolume_Told":        initializations,
		"Locks_NoneLocked_None":                  locks,
		"Copy_WithinTheRegion_TaggedAndWhole":    copySnapshot,
		"Copy_WithKey_EncryptedByIt":             copyEncrypted,
		"Copy_UnknownSnapshot_NotFound":          copyNowhere,
		"Copy_Probed_NothingMade":                copyProbed,
		"Copy_ToAnotherRegion_ThereAlone":        copyAway,
		"Copy_OfAnotherAccount_IfShared":         copyShared,
		"Tier_ThereAndBack_Described":            tierThereAndBack,
		"Tier_Archived_NeitherUsedNorShared":     tierArchived,
		"Share_OnAndOff_Described":               shareOnAndOff,
		"Share_UnknownSnapshot_NotFound":         shareNowhere,
		"Lock_OnAndOff_KeepsTheSnapshot":         lockOnAndOff,
		"Encrypt_SameKeyAndContext_Decrypted":    encryptByKey,
		"Decrypt_OtherContextKeyOrBytes_Corrupt": decryptOther,
		"Encrypt_DisabledKey_Unready":            encryptDisabled,
		"Encrypt_KeyElsewhere_NotFound":          encryptElsewhere,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, create(t))
		})
	}
}

func (s Subject) tags(t *testing.T, more ...string) ebs.Tags {
	t.Helper()
	tags := ebs.Tags{ebs.TagRun: s.Run + t.Name(), ebs.TagCluster: "ns/demo"}
	for i, value := range more {
		tags[fmt.Sprintf("more-%d", i)] = value
	}
	return tags
}

// completed cuts the volumes and waits for the snapshots.
func (s Subject) completed(t *testing.T, i cluster.InstanceID, volumes []cluster.VolumeID) []ebs.Snapshot {
	t.Helper()
	made, err := s.Client.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Tags: s.tags(t)})
	require.NoError(t, err)
	var ids []cluster.SnapshotID
	for _, p := range made {
		ids = append(ids, p.ID)
	}
	var found []ebs.Snapshot
	s.eventually(t, "snapshots complete", func() bool {
		found, err = s.Client.DescribeSnapshots(t.Context(), ids)
		if err != nil || len(found) != len(ids) {
			return false
		}
		for _, p := range found {
			if p.State != ebs.SnapshotCompleted {
				return false
			}
		}
		return true
	})
	return found
}

func cutAll(t *testing.T, s Subject) { cutTwo(t, s, 2) }

func cutWanted(t *testing.T, s Subject) {
	s.needs(t, TraitExclusion)
	cutTwo(t, s, 3)
}

// cutTwo cuts two of an instance's data volumes.
func cutTwo(t *testing.T, s Subject, attached int) {
	t.Helper()
	i, volumes := s.Instance(t, attached)
	made, err := s.Client.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes[:2], Tags: s.tags(t)})
	require.NoError(t, err)
	require.Len(t, made, 2)
	require.ElementsMatch(t, volumes[:2], []cluster.VolumeID{made[0].Volume, made[1].Volume})
	for _, p := range made {
		require.Equal(t, ebs.SnapshotPending, p.State)
		require.Equal(t, s.tags(t), p.Tags)
		require.EqualValues(t, 10, p.SizeGiB)
		require.False(t, p.StartedAt.IsZero())
	}
	require.Equal(t, made[0].StartedAt, made[1].StartedAt)
}

func cutMissing(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	_, other := s.Instance(t, 1)
	_, err := s.Client.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: append(volumes, other...), Tags: s.tags(t)})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	found, err := s.Client.FindSnapshots(t.Context(), s.tags(t))
	require.NoError(t, err)
	require.Empty(t, found)
}

func cutNowhere(t *testing.T, s Subject) {
	_, err := s.Client.Cut(t.Context(), ebs.CutRequest{Instance: "i-0123456789abcdef0", Volumes: []cluster.VolumeID{"vol-1"}})
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

func describeUnknown(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	made := s.completed(t, i, volumes)
	snapshots, err := s.Client.DescribeSnapshots(t.Context(), []cluster.SnapshotID{made[0].ID, "snap-0123456789abcdef0", made[0].ID})
	require.NoError(t, err)
	require.Len(t, snapshots, 1)
	found, err := s.Client.DescribeVolumes(t.Context(), []cluster.VolumeID{"vol-0123456789abcdef0", volumes[0]})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, i, found[0].Instance)
	require.Equal(t, ebs.VolumeInUse, found[0].State)
	none, err := s.Client.DescribeVolumes(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func findByTags(t *testing.T, s Subject) { findByTag(t, s, "plain value") }

func findByOddTags(t *testing.T, s Subject) {
	s.needs(t, TraitEscapes)
	findByTag(t, s, `odd *value? with \ in it`)
}

func findByTag(t *testing.T, s Subject, value string) {
	t.Helper()
	i, volumes := s.Instance(t, 1)
	tags := s.tags(t, value)
	_, err := s.Client.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes, Tags: tags})
	require.NoError(t, err)
	s.eventually(t, "found by tags", func() bool {
		found, err := s.Client.FindSnapshots(t.Context(), tags)
		return err == nil && len(found) == 1 && found[0].Volume == volumes[0]
	})
	found, err := s.Client.FindSnapshots(t.Context(), s.tags(t, "another value"))
	require.NoError(t, err)
	require.Empty(t, found)
}

func findNothing(t *testing.T, s Subject) {
	_, err := s.Client.FindSnapshots(t.Context(), nil)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	_, err = s.Client.FindVolumes(t.Context(), ebs.Tags{})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func deleteTwice(t *testing.T, s Subject) {
	i, volumes := s.Instance(t, 1)
	made := s.completed(t, i, volumes)
	v := s.restored(t, made[0], "delete-twice")
	for range 2 {
		require.NoError(t, s.Client.DeleteVolume(t.Context(), v.ID))
		require.NoError(t, s.Client.DeleteSnapshot(t.Context(), "snap-0123456789abcdef0"))
	}
	require.NoError(t, s.Client.DeleteSnapshot(t.Context(), made[0].ID))
	found, err := s.Client.DescribeSnapshots(t.Context(), []cluster.SnapshotID{made[0].ID})
	require.NoError(t, err)
	require.Empty(t, found)
}
