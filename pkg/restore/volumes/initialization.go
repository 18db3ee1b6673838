package volumes

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// fill is how volumes are initialized at a rate: EC2 limits the sum of all rates in a region, so a slower rate is
// preferred to waiting, and waiting to none.
type fill struct {
	rate int64 // MiB/s per volume; 0 for none
	most int   // volumes initialized concurrently
}

// planFill keeps all volumes together within the region's limit. The user's rate is the maximum: with many volumes it
// is lower, as the limit is shared, and below the minimum rate they are made in waves.
func planFill(asked int64, volumes int) fill {
	if asked == 0 || volumes == 0 {
		return fill{}
	}
	rate := min(asked, max(ebs.InitializationRateSum/int64(volumes), ebs.MinInitializationRate))
	return fill{rate: rate, most: int(ebs.InitializationRateSum / rate)}
}

// waves returns the number of waves for so many volumes.
func (f fill) waves(volumes int) int {
	if f.rate == 0 || volumes == 0 {
		return 1
	}
	return (volumes + f.most - 1) / f.most
}

// seconds estimates how long all volumes take, one fullest volume per wave.
func (f fill) seconds(volumes int, largestBytes int64) float64 {
	if f.rate == 0 {
		return 0
	}
	return float64(f.waves(volumes)) * float64(largestBytes) / float64(f.rate<<20)
}

// checkRate refuses rates that EC2 would refuse.
func checkRate(rate int64) error {
	if rate == 0 || (rate >= ebs.MinInitializationRate && rate <= ebs.MaxInitializationRate) {
		return nil
	}
	return failure.New(failure.Usage, "check initialization rate", "", "%d MiB/s is not possible", rate).
		WithHint("choose a rate from %d to %d MiB/s", ebs.MinInitializationRate, ebs.MaxInitializationRate)
}

// fillPollInterval is how often the volumes' progress is read: EC2's answer is up to 5 minutes old.
const fillPollInterval = 15 * time.Second

// WavesDeadline bounds making volumes in waves: each wave has its own limit.
const WavesDeadline = 72 * time.Hour

// waveTime bounds one wave: twice what EC2 needs for the fullest volume, and the user's patience.
func (m *Maker) waveTime() time.Duration {
	return time.Duration(2*fill{rate: m.plan.fill.rate, most: 1}.seconds(1, m.plan.LargestBytes)*float64(time.Second)) +
		m.opts.Timeout
}

// awaitFill waits until few enough volumes are being initialized for another wave.
func (m *Maker) awaitFill(ctx context.Context, s *phase.Scope, volumes []*Volume, room int) error {
	ctx, cancel := context.WithTimeout(ctx, m.waveTime())
	defer cancel()
	filling := 0
	err := wait.Until(ctx, wait.Every(min(fillPollInterval, m.opts.Timeout/20)), func() (bool, error) {
		ids := make([]cluster.VolumeID, 0, len(volumes))
		for _, v := range volumes {
			ids = append(ids, v.ID)
		}
		found, err := m.ec2.Initializations(ctx, ids)
		if err != nil && !failure.Transient(err) {
			return true, failure.Annotate(err, "ask how far volumes are", m.owner.Target.String())
		}
		filling = len(ids)
		for _, i := range found {
			if i.Done() {
				filling--
			}
		}
		if err == nil && filling <= room {
			return true, nil
		}
		s.Note("%d volumes are being initialized at %d MiB/s each; the next wave waits for them", filling,
			m.plan.fill.rate)
		return false, nil
	})
	if ended := wait.EndOf(err); ended != nil {
		return failure.New(failure.Limited, "wait for initialization", m.owner.Target.String(),
			"%d volumes are not done: %w", filling, ended.Cause).
			WithHint("give it more time by --timeout, or leave --initialization-rate out")
	}
	return err
}

// noteInitialization records each volume's progress in the result. It is only for the report: errors are ignored.
func (m *Maker) noteInitialization(ctx context.Context, s *phase.Scope) {
	byID := map[cluster.VolumeID]*Volume{}
	ids := make([]cluster.VolumeID, 0, len(m.volumes))
	for i := range m.volumes {
		byID[m.volumes[i].ID] = &m.volumes[i]
		ids = append(ids, m.volumes[i].ID)
	}
	found, err := m.ec2.Initializations(ctx, ids)
	if err != nil {
		s.Note("could not read how far the volumes are initialized: %v", err)
		return
	}
	for _, i := range found {
		if v := byID[i.Volume]; v != nil && i.Known {
			progress := i.Progress
			v.Initialized = &progress
		}
	}
}
