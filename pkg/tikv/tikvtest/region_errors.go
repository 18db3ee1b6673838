package tikvtest

import (
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
)

// suspended is the reason that TiKV gives for what a prepare-snapshot lease forbids.
const suspended = "[Suspended] Preparing disk snapshot backup, ingests and some of admin commands are suspended."

func regionNotFound(id uint64) *errorpb.Error {
	return &errorpb.Error{
		Message:        fmt.Sprintf("region %d not found", id),
		RegionNotFound: &errorpb.RegionNotFound{RegionId: id},
	}
}

func notLeader(v peerView) *errorpb.Error {
	leader, text := peerByID(v.region, v.lead), "None"
	if leader != nil {
		text = fmt.Sprintf("Some(id: %d store_id: %d)", leader.Id, leader.StoreId)
	}
	return &errorpb.Error{
		Message:   fmt.Sprintf("peer is not leader for region %d, leader may %s", v.region.Id, text),
		NotLeader: &errorpb.NotLeader{RegionId: v.region.Id, Leader: leader},
	}
}

func storeNotMatch(asked, actual uint64) *errorpb.Error {
	return &errorpb.Error{
		Message:       fmt.Sprintf("to store id %d, mine %d", asked, actual),
		StoreNotMatch: &errorpb.StoreNotMatch{RequestStoreId: asked, ActualStoreId: actual},
	}
}

func mismatchPeerID(asked, actual uint64) *errorpb.Error {
	return &errorpb.Error{
		Message:        fmt.Sprintf("mismatch peer id %d != %d", asked, actual),
		MismatchPeerId: &errorpb.MismatchPeerId{RequestPeerId: asked, StorePeerId: actual},
	}
}

// epochNotMatch names the region as it is now and, if the request's epoch is older, its left neighbour, which
// a split may have made of it.
func (s *Store) epochNotMatch(r *metapb.Region, asked *metapb.RegionEpoch) *errorpb.Error {
	current := []*metapb.Region{r}
	if asked.GetVersion() < r.RegionEpoch.Version && len(r.StartKey) > 0 {
		if left := s.regionEndingAt(r.StartKey); left != nil {
			current = append(current, left)
		}
	}
	return &errorpb.Error{
		Message: fmt.Sprintf("EpochNotMatch current epoch of region %d is conf_ver: %d version: %d, but you sent conf_ver: %d version: %d",
			r.Id, r.RegionEpoch.ConfVer, r.RegionEpoch.Version, asked.GetConfVer(), asked.GetVersion()),
		EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: current},
	}
}

func keyNotInRegion(key []byte, r *metapb.Region) *errorpb.Error {
	return &errorpb.Error{
		Message: fmt.Sprintf("key %X is not in region key range [%X, %X) for region %d", key, r.StartKey, r.EndKey, r.Id),
		KeyNotInRegion: &errorpb.KeyNotInRegion{
			Key: key, RegionId: r.Id, StartKey: r.StartKey, EndKey: r.EndKey,
		},
	}
}

func flashbackInProgress(r *metapb.Region) *errorpb.Error {
	return &errorpb.Error{
		Message:             fmt.Sprintf("region %d is in the flashback progress with start_ts %d", r.Id, r.FlashbackStartTs),
		FlashbackInProgress: &errorpb.FlashbackInProgress{RegionId: r.Id, FlashbackStartTs: r.FlashbackStartTs},
	}
}

// flashbackNotPrepared has no message, as in TiKV.
func flashbackNotPrepared(region uint64) *errorpb.Error {
	return &errorpb.Error{FlashbackNotPrepared: &errorpb.FlashbackNotPrepared{RegionId: region}}
}

func serverIsBusy(reason string, backoff time.Duration) *errorpb.Error {
	return &errorpb.Error{
		Message:      reason,
		ServerIsBusy: &errorpb.ServerIsBusy{Reason: reason, BackoffMs: uint64(backoff.Milliseconds())},
	}
}

// suspendedFor is the refusal of an admin command under a lease with so much time left; TiKV gives whole seconds.
func suspendedFor(left time.Duration) *errorpb.Error {
	left = left.Truncate(time.Second)
	text := fmt.Sprintf("%ds", left/time.Second)
	if left == 0 {
		text = "0ns"
	}
	err := serverIsBusy(suspended, left)
	err.Message = fmt.Sprintf("Coprocessor required retry after %s, hint: %q", text, suspended)
	return err
}

func staleCommand() *errorpb.Error {
	return &errorpb.Error{Message: "stale command", StaleCommand: &errorpb.StaleCommand{}}
}
