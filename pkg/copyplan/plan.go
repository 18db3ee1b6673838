package copyplan

import (
	"cmp"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Slots is how many copies EC2 makes at a time into a region of an account. The quota cannot be raised.
const Slots = 20

// What EC2 gives copies with a duration, in bytes per second: one copy, and all of a pair of regions. The second is a
// quota that can be raised.
const (
	RateOfOne  = 500 << 20
	RateOfPair = 2000 << 20
)

// Snapshot is a snapshot of the backup that is copied.
type Snapshot struct {
	ID     cluster.SnapshotID
	Volume cluster.VolumeID // that it was cut of
	Bytes  int64            // all of its data
	// Key is the one that its copy gets, "" for an unencrypted copy; KeyUnknown if it cannot be found out.
	Key        string
	KeyUnknown bool
}

// Before is an earlier copy of a volume in the target, the newest by its completion.
type Before struct {
	Exists   bool // it was not deleted
	Archived bool // in the archive tier
	// Keys are those of all copies of the volume that exist in the target; "" is that of an unencrypted one.
	Keys []string
}

// Reason is why all data of a snapshot is moved.
type Reason string

// The reasons; Incremental is that only what has changed is moved.
const (
	Incremental Reason = ""
	First       Reason = "no copy of the volume is in the target yet"
	Deleted     Reason = "the newest copy of the volume was deleted"
	Archived    Reason = "the newest copy of the volume is in the archive tier"
	OtherKey    Reason = "a copy of the volume has another key"
	UnknownKey  Reason = "whether all copies of the volume have one key is unknown"
)

// Copy is one copy that is to be made.
type Copy struct {
	Snapshot
	Full Reason
}

// Plan is what is to be copied, in the order in which it is begun: the largest first, so that none is left alone at the
// end.
type Plan struct {
	Copies []Copy
	// FullBytes is the data of the copies that move all; ChangedBytes is that of the others, which move at most that.
	FullBytes, ChangedBytes int64
}

// Make plans the copies of snapshots. before has the earlier copies by the volume.
func Make(snapshots []Snapshot, before map[cluster.VolumeID]Before) Plan {
	var p Plan
	for _, s := range snapshots {
		c := Copy{Snapshot: s, Full: reason(before, s)}
		if c.Full == Incremental {
			p.ChangedBytes += s.Bytes
		} else {
			p.FullBytes += s.Bytes
		}
		p.Copies = append(p.Copies, c)
	}
	slices.SortStableFunc(p.Copies, func(a, b Copy) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID))
	})
	return p
}

func reason(before map[cluster.VolumeID]Before, s Snapshot) Reason {
	last, known := before[s.Volume]
	switch {
	case !known:
		return First
	case !last.Exists:
		return Deleted
	case last.Archived:
		return Archived
	case s.KeyUnknown:
		return UnknownKey
	case slices.ContainsFunc(last.Keys, func(other string) bool { return other != s.Key }):
		return OtherKey
	default:
		return Incremental
	}
}

// Next returns the copies that may begin now, in order, as long as those that run leave slots free: no volume has two
// at a time. done and running are by the snapshot that is copied.
func (p Plan) Next(running, done map[cluster.SnapshotID]bool, slots int) []Copy {
	busy, free := map[cluster.VolumeID]bool{}, slots
	for _, c := range p.Copies {
		if running[c.ID] {
			busy[c.Volume] = true
			free--
		}
	}
	var next []Copy
	for _, c := range p.Copies {
		if free <= 0 {
			break
		}
		if running[c.ID] || done[c.ID] || busy[c.Volume] {
			continue
		}
		busy[c.Volume] = true
		free--
		next = append(next, c)
	}
	return next
}

// Least is what EC2 takes for the plan at least, with so many bytes a second for all copies (RateOfPair, unless the
// quota is lower): the time of those that surely move all data. What the others move is unknown before.
func (p Plan) Least(pair int64) time.Duration {
	return p.shortest(pair, func(c Copy) bool { return c.Full != Incremental && c.Full != UnknownKey })
}

// AllChanged is Least if the others, too, move all data, as every block has changed.
func (p Plan) AllChanged(pair int64) time.Duration {
	return p.shortest(pair, func(Copy) bool { return true })
}

func (p Plan) shortest(pair int64, moves func(Copy) bool) time.Duration {
	var all int64
	ofVolume := map[cluster.VolumeID]int64{} // its copies run one after the other
	for _, c := range p.Copies {
		if moves(c) {
			all += c.Bytes
			ofVolume[c.Volume] += c.Bytes
		}
	}
	least := seconds(all, min(max(1, pair), Slots*RateOfOne))
	for _, bytes := range ofVolume {
		least = max(least, seconds(bytes, RateOfOne))
	}
	return least
}

// CheckWithin refuses a duration in which EC2 cannot complete the plan. It takes all data of each snapshot: whether EC2
// does so for one that moves only changes is not documented. The error is Usage, and nothing was called.
func (p Plan) CheckWithin(within time.Duration, pair int64) error {
	least := p.AllChanged(pair)
	if within >= least {
		return nil
	}
	possible := (least + step - 1).Truncate(step)
	return failure.New(failure.Usage, "plan copies", "", "%d snapshots with %.1f GiB cannot be copied within %v",
		len(p.Copies), float64(p.FullBytes+p.ChangedBytes)/(1<<30), within).
		WithHint("the throughput between the regions allows %v at the shortest; leave the duration out, "+
			"or ask AWS to raise the quota L-E137849C", possible)
}

// Each returns the duration to ask for each copy so that all are completed within the given time, which CheckWithin
// accepts: only Slots of them, and one of a volume, run at a time, so that they may have to share it. It is never
// longer than EC2 takes. Usage if no duration is short enough and long enough.
func (p Plan) Each(within time.Duration, pair int64) (time.Duration, error) {
	rounds, ofVolume := (len(p.Copies)+Slots-1)/Slots, map[cluster.VolumeID]int{}
	var largest, atOnce int64
	for i, c := range p.Copies { // the largest first
		ofVolume[c.Volume]++
		rounds = max(rounds, ofVolume[c.Volume])
		largest = max(largest, c.Bytes)
		if i < Slots {
			atOnce += c.Bytes
		}
	}
	each := (within / time.Duration(max(1, rounds))).Truncate(step)
	if each >= step && each >= seconds(largest, RateOfOne) && each >= seconds(atOnce, max(1, pair)) {
		return min(each, longest), nil
	}
	return 0, failure.New(failure.Usage, "plan copies", "",
		"%d snapshots are copied in %d rounds, which are too short within %v", len(p.Copies), rounds, within).
		WithHint("allow more time, or leave the duration out")
}

// The durations that EC2 takes are multiples of step, up to longest.
const (
	step    = 15 * time.Minute
	longest = 48 * time.Hour
)

func seconds(bytes, rate int64) time.Duration {
	return time.Duration(float64(bytes) / float64(rate) * float64(time.Second))
}
