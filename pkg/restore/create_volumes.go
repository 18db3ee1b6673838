package restore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// createdVolumes maps a snapshot to the volume that was made of it. It is journalled.
type createdVolumes map[cluster.SnapshotID]cluster.VolumeID

// createVolumes asks for all volumes at the same time, or in waves where EC2 is to fill them; the adapter paces
// the calls. A lost answer is asked for again with the same token, which gives the same volume.
func (r *run) createVolumes(ctx context.Context, s *phase.Scope) error {
	if err := s.Intent(ctx, journal.IntentCreateVolumes, r.volumes); err != nil {
		return err
	}
	s.Expect(int64(len(r.volumes)), "volumes")
	r.asked, r.asking = true, time.Now()
	r.noteVolumes()
	wave := len(r.volumes)
	if r.fill.rate > 0 {
		wave = r.fill.most
	}
	var before []*Volume
	for first := 0; first < len(r.volumes); first += wave {
		if first > 0 {
			if err := r.awaitFill(ctx, s, before, 0); err != nil {
				return err
			}
		}
		before = nil
		for i := first; i < min(first+wave, len(r.volumes)); i++ {
			before = append(before, &r.volumes[i])
		}
		if err := r.createWave(ctx, s, before); err != nil {
			return err
		}
	}
	r.retag(ctx, s)
	return nil
}

func (r *run) createWave(ctx context.Context, s *phase.Scope, wave []*Volume) error {
	err := parallel.Each(ctx, 0, wave, func(ctx context.Context, _ int, v *Volume) error {
		id, err := r.createVolume(ctx, s, v)
		if err != nil {
			return failure.Annotate(err, "create volume", fmt.Sprintf("store %s %s", v.Store, v.Role))
		}
		v.ID = id
		s.Advance(1)
		return nil
	})
	for _, v := range wave {
		if v.ID != "" {
			r.created[v.Snapshot] = v.ID
		}
	}
	return err
}

// maxGenerations bounds the new tokens of one volume: EC2 burns about one in a thousand, so a volume that
// vanishes each time has another reason, a key that may not be used for one.
const maxGenerations = 4

// createVolume asks until EC2 has answered. A burned token, whose volume vanished while it was made, is
// followed by the next one; a rate that EC2 has no room for is left out, with a warning.
func (r *run) createVolume(ctx context.Context, s *phase.Scope, v *Volume) (cluster.VolumeID, error) {
	if id := r.made[v.Snapshot]; id != "" && id != v.ID { // its own is what is lost
		s.Result(journal.ResultVolume, journal.Volume{Generation: v.generation, Snapshot: v.Snapshot, Volume: id})
		return id, nil
	}
	rate := r.fill.rate
	for interval := pollInterval; ; interval = min(2*interval, 10*time.Second) {
		made, err := r.ask(ctx, v, rate)
		switch {
		case err == nil:
			s.Result(journal.ResultVolume, journal.Volume{Generation: v.generation, Snapshot: v.Snapshot, Volume: made.ID})
			return made.ID, nil
		case ebs.TokenBurned(err):
			if v.generation >= maxGenerations {
				return "", neverMade(v)
			}
			v.generation++
			continue
		case rate > 0 && failure.Is(err, failure.Limited) && ctx.Err() == nil:
			// Another request needs another token: one whose answer was lost must not have made a volume already.
			if id, findErr := r.madeAlready(ctx, v); id != "" || findErr != nil {
				return id, findErr
			}
			s.Warn("EC2 has no room to fill the volume of %s at %d MiB/s, it is made without: %v", v.Snapshot, rate, err)
			rate = 0
			continue
		}
		if !failure.Transient(err) {
			return "", err
		}
		if wait.For(ctx, interval) != nil {
			return "", err
		}
	}
}

// roomTime is how long a restore waits for room to fill a volume at a rate: what takes the room, others'
// volumes, takes hours.
const roomTime = 30 * time.Second

func (r *run) ask(ctx context.Context, v *Volume, rate int64) (ebs.Volume, error) {
	if rate > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, min(roomTime, r.opts.Timeout/4))
		defer cancel()
	}
	return r.EBS.CreateVolume(ctx, r.request(v, rate))
}

// madeAlready asks for the run's volume of the snapshot until EC2 cannot hide it any more; "" if there is none.
func (r *run) madeAlready(ctx context.Context, v *Volume) (cluster.VolumeID, error) {
	for end := time.Now().Add(r.opts.Visibility); ; {
		found, err := r.EBS.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(r.opts.Run), ebs.TagSnapshot: string(v.Snapshot)})
		if err != nil {
			return "", failure.Annotate(err, "find volume", string(v.Snapshot))
		}
		for _, made := range found {
			if made.State.Outcome() != ebs.VolumeFailed {
				return made.ID, nil
			}
		}
		if time.Now().After(end) {
			return "", nil
		}
		if err := wait.For(ctx, pollInterval); err != nil {
			return "", err
		}
	}
}

// request is what EC2 is asked for.
func (r *run) request(v *Volume, rate int64) ebs.VolumeRequest {
	fresh := *v // those of volumes that the run made and deleted are burned
	fresh.generation += r.earlier.Restarts * maxGenerations
	return ebs.VolumeRequest{
		Token: token(r.opts.Run, &fresh, rate), Snapshot: v.Snapshot, Zone: v.Zone, Spec: v.Spec, InitializationMiB: rate,
		Encrypted: r.opts.KMSKey != "" || v.encrypt, KMSKey: r.opts.KMSKey, Tags: r.tags(v),
		Before: r.runner.Fence().Check,
	}
}

// token is the same for the same volume of the same run, so that asking again never makes a second volume.
// Other parameters need another one.
func token(run cluster.RunID, v *Volume, rate int64) string {
	return ebs.Token(v.generation, string(run), v.Store.String(), string(v.Role), string(v.Snapshot), strconv.FormatInt(rate, 10))
}
