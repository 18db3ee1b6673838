package restore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// createdVolumes maps a snapshot to the volume that was made of it. It is journalled.
type createdVolumes map[cluster.SnapshotID]cluster.VolumeID

// createVolumes asks for all volumes at the same time, or in waves where EC2 is to fill them; the adapter paces
// the calls. A lost answer is asked for again with the same token, which gives the same volume.
func (t *task) createVolumes(ctx context.Context, s *phase.Scope) error {
	if err := s.Intent(ctx, journal.IntentCreateVolumes, t.volumes); err != nil {
		return err
	}
	s.Expect(int64(len(t.volumes)), "volumes")
	t.asked = true
	wave := len(t.volumes)
	if t.fill.rate > 0 {
		wave = t.fill.most
	}
	var before []*Volume
	for first := 0; first < len(t.volumes); first += wave {
		if first > 0 {
			if err := t.awaitFill(ctx, s, before, 0); err != nil {
				return err
			}
		}
		before = nil
		for i := first; i < min(first+wave, len(t.volumes)); i++ {
			before = append(before, &t.volumes[i])
		}
		if err := t.createWave(ctx, s, before); err != nil {
			return err
		}
	}
	return nil
}

func (t *task) createWave(ctx context.Context, s *phase.Scope, wave []*Volume) error {
	errs := make([]error, len(wave))
	var wg sync.WaitGroup
	for i, v := range wave {
		wg.Go(func() {
			id, err := t.createVolume(ctx, s, v)
			if err != nil {
				errs[i] = failure.Annotate(err, "create volume", fmt.Sprintf("store %s %s", v.Store, v.Role))
				return
			}
			v.ID = id
			s.Advance(1)
		})
	}
	wg.Wait()
	for _, v := range wave {
		if v.ID != "" {
			t.created[v.Snapshot] = v.ID
		}
	}
	return errors.Join(errs...)
}

// mostGenerations bounds the new tokens of one volume: EC2 burns about one in a thousand, so a volume that
// vanishes again and again has another reason, a key that may not be used for one.
const mostGenerations = 4

// createVolume asks until EC2 has answered. A burned token, whose volume vanished while it was made, is
// followed by the next one; a rate that EC2 has no room for is given up, with a warning.
func (t *task) createVolume(ctx context.Context, s *phase.Scope, v *Volume) (cluster.VolumeID, error) {
	rate := t.fill.rate
	for interval := look; ; interval = min(2*interval, 10*time.Second) {
		made, err := t.ask(ctx, v, rate)
		switch {
		case err == nil:
			s.Result(journal.ResultVolume, journal.Volume{Generation: v.generation, Snapshot: v.Snapshot, Volume: made.ID})
			return made.ID, nil
		case ebs.TokenBurned(err):
			if v.generation >= mostGenerations {
				return "", failure.New(failure.Corrupt, "create volume", string(v.Snapshot), "%d volumes of it vanished: %w", v.generation, err).
					WithHint("see that the KMS key of the snapshot is enabled and may be used by this role")
			}
			v.generation++
			continue
		case rate > 0 && failure.Is(err, failure.Limited) && ctx.Err() == nil:
			// Another request needs another token: one whose answer was lost must not have made a volume already.
			if id, lookErr := t.madeAlready(ctx, v); id != "" || lookErr != nil {
				return id, lookErr
			}
			s.Warn("EC2 has no room to fill the volume of %s at %d MiB/s, it is made without: %v", v.Snapshot, rate, err)
			rate = 0
			continue
		}
		if !transient(err) {
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

func (t *task) ask(ctx context.Context, v *Volume, rate int64) (ebs.Volume, error) {
	if rate > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, min(roomTime, t.opts.Timeout/4))
		defer cancel()
	}
	return t.EBS.CreateVolume(ctx, t.request(v, rate))
}

// madeAlready looks for the run's volume of the snapshot until EC2 cannot hide it any more; "" if there is none.
func (t *task) madeAlready(ctx context.Context, v *Volume) (cluster.VolumeID, error) {
	for end := time.Now().Add(t.opts.Visibility); ; {
		found, err := t.EBS.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(t.opts.Run), ebs.TagSnapshot: string(v.Snapshot)})
		if err != nil {
			return "", failure.Annotate(err, "look for a volume", string(v.Snapshot))
		}
		for _, made := range found {
			if made.State.Outcome() != ebs.VolumeFailed {
				return made.ID, nil
			}
		}
		if time.Now().After(end) {
			return "", nil
		}
		if err := wait.For(ctx, look); err != nil {
			return "", err
		}
	}
}

// request is what EC2 is asked for. The driver's and the Operator's tags are what they look a volume up by,
// and what the driver's usual IAM policy allows it to delete or resize.
func (t *task) request(v *Volume, rate int64) ebs.VolumeRequest {
	own := ebs.Tags{
		ebs.TagRun: string(t.opts.Run), ebs.TagBackup: string(t.opts.Backup), ebs.TagCluster: t.opts.Target.String(),
		ebs.TagStore: v.Store.String(), ebs.TagRole: string(v.Role), ebs.TagSnapshot: string(v.Snapshot),
		"CSIVolumeName":                           v.names.PV,
		"ebs.csi.aws.com/cluster":                 "true",
		"kubernetes.io/created-for/pv/name":       v.names.PV,
		"kubernetes.io/created-for/pvc/name":      v.names.Claim,
		"kubernetes.io/created-for/pvc/namespace": t.opts.Target.Namespace,
	}
	tags, _ := ebs.KeepTags(own, t.opts.KeepTags, v.kept)
	return ebs.VolumeRequest{
		Token: token(t.opts.Run, v, rate), Snapshot: v.Snapshot, Zone: v.Zone, Spec: v.Spec, InitializationMiB: rate,
		Encrypted: t.opts.KMSKey != "", KMSKey: t.opts.KMSKey, Tags: tags,
	}
}

// token is the same for the same volume of the same run, so that asking again never makes a second volume.
// Other parameters need another one.
func token(run cluster.RunID, v *Volume, rate int64) string {
	return ebs.Token(v.generation, string(run), v.Store.String(), string(v.Role), string(v.Snapshot), strconv.FormatInt(rate, 10))
}
