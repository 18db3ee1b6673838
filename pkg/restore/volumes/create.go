package volumes

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

// Created maps snapshots to the volumes made from them. It is journalled.
type Created map[cluster.SnapshotID]cluster.VolumeID

// Create requests all volumes concurrently, or in waves if EC2 initializes them; the adapter paces the calls. After a
// lost answer the request is repeated with the same token, which returns the same volume. It returns what was made also
// on error.
func (m *Maker) Create(ctx context.Context, s *phase.Scope) (Created, error) {
	if err := s.Intent(ctx, journal.IntentCreateVolumes, m.volumes); err != nil {
		return nil, err
	}
	made, err := m.madeBefore(ctx)
	if err != nil {
		return nil, err
	}
	s.Expect(int64(len(m.volumes)), "volumes")
	m.asked, m.asking = true, time.Now()
	m.noteVolumes()
	wave := len(m.volumes)
	if m.plan.fill.rate > 0 {
		wave = m.plan.fill.most
	}
	var before []*Volume
	for first := 0; first < len(m.volumes); first += wave {
		if first > 0 {
			if err := m.awaitFill(ctx, s, before, 0); err != nil {
				return m.created(), err
			}
		}
		before = nil
		for i := first; i < min(first+wave, len(m.volumes)); i++ {
			before = append(before, &m.volumes[i])
		}
		if err := m.createWave(ctx, s, before, made); err != nil {
			return m.created(), err
		}
	}
	m.retag(ctx, s)
	return m.created(), nil
}

func (m *Maker) created() Created {
	out := Created{}
	for i := range m.volumes {
		if v := &m.volumes[i]; v.ID != "" {
			out[v.Snapshot] = v.ID
		}
	}
	return out
}

// madeBefore finds, by their tags, an earlier process's volumes that its journal may not name: if EC2 had no room for
// the rate their token was another one, and a repeated request could make a second volume.
func (m *Maker) madeBefore(ctx context.Context) (Created, error) {
	if m.earlier.Epoch == 0 || m.plan.fill.rate == 0 {
		return nil, nil
	}
	found, err := m.ec2.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(m.owner.Run)})
	if err != nil {
		return nil, failure.Annotate(err, "find volumes", "run "+string(m.owner.Run))
	}
	made := Created{}
	for _, v := range found {
		if v.State.Outcome() != ebs.VolumeFailed {
			made[cluster.SnapshotID(v.Tags[ebs.TagSnapshot])] = v.ID
		}
	}
	return made, nil
}

func (m *Maker) createWave(ctx context.Context, s *phase.Scope, wave []*Volume, made Created) error {
	return parallel.Each(ctx, 0, wave, func(ctx context.Context, _ int, v *Volume) error {
		id := made[v.Snapshot]
		var err error
		if id != "" {
			s.Result(journal.ResultVolume, journal.Volume{Generation: v.generation, Snapshot: v.Snapshot, Volume: id})
		} else {
			id, err = m.createVolume(ctx, s, v)
		}
		if err != nil {
			return failure.Annotate(err, "create volume", fmt.Sprintf("store %s %s", v.Store, v.Role))
		}
		v.ID = id
		s.Advance(1)
		return nil
	})
}

// maxGenerations bounds the new tokens of one volume: EC2 burns about one in a thousand, so a volume that always
// vanishes has another reason, such as a key that may not be used.
const maxGenerations = 4

// createVolume retries until EC2 has answered. After a burned token, whose volume vanished while it was created, it
// uses the next one; a rate for which EC2 has no room is omitted, with a warning.
func (m *Maker) createVolume(ctx context.Context, s *phase.Scope, v *Volume) (cluster.VolumeID, error) {
	rate := m.plan.fill.rate
	for interval := m.opts.Poll; ; interval = min(2*interval, 10*time.Second) {
		made, err := m.ask(ctx, v, rate)
		switch {
		case err == nil:
			s.Result(journal.ResultVolume,
				journal.Volume{Generation: v.generation, Snapshot: v.Snapshot, Volume: made.ID})
			return made.ID, nil
		case ebs.TokenBurned(err):
			if v.generation >= maxGenerations {
				return "", neverMade(v)
			}
			v.generation++
			continue
		case rate > 0 && failure.Is(err, failure.Limited) && ctx.Err() == nil:
			// Another request needs another token, so an unanswered one must not have made a volume.
			id, findErr := m.madeAlready(ctx, v)
			if findErr != nil {
				return "", findErr
			}
			if id != "" {
				s.Result(journal.ResultVolume,
					journal.Volume{Generation: v.generation, Snapshot: v.Snapshot, Volume: id})
				return id, nil
			}
			s.Warn("EC2 has no room to fill the volume of %s at %d MiB/s, it is made without: %v", v.Snapshot, rate,
				err)
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

// roomTime is how long a restore waits for room to initialize a volume at a rate: other volumes occupy it for hours.
const roomTime = 30 * time.Second

func (m *Maker) ask(ctx context.Context, v *Volume, rate int64) (ebs.Volume, error) {
	if rate > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, min(roomTime, m.opts.Timeout/4))
		defer cancel()
	}
	return m.ec2.CreateVolume(ctx, m.request(v, rate))
}

// madeAlready looks for the run's volume of the snapshot until EC2 cannot hide it any more; "" if there is none.
func (m *Maker) madeAlready(ctx context.Context, v *Volume) (id cluster.VolumeID, err error) {
	end := time.Now().Add(m.opts.Visibility)
	err = wait.Until(ctx, wait.Every(m.opts.Poll), func() (bool, error) {
		asked := time.Now()
		found, err := m.ec2.FindVolumes(ctx,
			ebs.Tags{ebs.TagRun: string(m.owner.Run), ebs.TagSnapshot: string(v.Snapshot)})
		if err != nil {
			return true, failure.Annotate(err, "find volume", string(v.Snapshot))
		}
		for _, made := range found {
			if made.State.Outcome() != ebs.VolumeFailed {
				id = made.ID
				return true, nil
			}
		}
		return asked.After(end), nil
	})
	return id, err
}

// request returns the volume's request.
func (m *Maker) request(v *Volume, rate int64) ebs.VolumeRequest {
	fresh := *v // tokens of volumes that the run made and deleted are burned
	fresh.generation += m.earlier.Restarts * maxGenerations
	return ebs.VolumeRequest{
		Token: token(m.owner.Run, &fresh, rate), Snapshot: v.Snapshot, Zone: v.Zone, Spec: v.Spec,
		InitializationMiB: rate,
		Encrypted:         m.opts.KMSKey != "" || v.encrypt, KMSKey: m.opts.KMSKey, Tags: m.tags(v),
	}
}

// token is the same for the same volume of the same run, so that a repeated request never makes a second volume. Other
// parameters need another one.
func token(run cluster.RunID, v *Volume, rate int64) string {
	return ebs.Token(v.generation, string(run), v.Store.String(), string(v.Role), string(v.Snapshot),
		strconv.FormatInt(rate, 10))
}
