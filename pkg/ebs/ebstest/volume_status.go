package ebstest

import (
	"encoding/xml"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// filling is how a volume gets its snapshot's data. All data can be read from the start; until doneAt, on
// EC2, slowly.
type filling struct {
	rateMiB           int64 // 0: EC2's own pace
	startedAt, doneAt time.Time
}

// progress is what EC2 reports: the percentage and what is left, as they were up to lag ago.
func (f *filling) progress(now time.Time, lag time.Duration) (percent int, left time.Duration) {
	since := now.Sub(f.startedAt)
	if lag > 0 {
		since = since.Truncate(lag)
	}
	all := f.doneAt.Sub(f.startedAt)
	if since >= all {
		return 100, 0
	}
	return int(100 * since / all), all - since
}

// fill decides how a new volume is filled. It is called when the volume is certain to be made.
func (s *Server) fill(v *volume, source *snapshot, rateMiB int64) {
	now := s.now()
	v.filling = &filling{rateMiB: rateMiB, startedAt: now, doneAt: now}
	rate := float64(rateMiB) * (1 << 20)
	switch {
	case rateMiB != 0: // goes before fast restore
	case source.takeCredit(v.zone, now):
		v.fastRestored = true
		return
	default:
		rate = max(1, s.rules.Initialization.LazyRate)
	}
	v.filling.doneAt = now.Add(time.Duration(float64(source.fullBytes) / rate * float64(time.Second)))
}

// initializationRate reads and checks the rate that a call asks for.
func (s *Server) initializationRate(req request, source *snapshot) (int64, error) {
	if !req.has("VolumeInitializationRate") {
		return 0, nil
	}
	rate, err := req.number("VolumeInitializationRate")
	rules := s.rules.Initialization
	switch {
	case err != nil:
		return 0, err
	case source == nil:
		return 0, refusal("InvalidArgument", "VolumeInitializationRate can only be specified for a volume that is created from a snapshot.")
	case rate < rules.LeastMiB || rate > rules.MostMiB:
		return 0, refusal("InvalidParameterValue", "Value (%d) for parameter volumeInitializationRate is invalid. It must be between %d and %d MiB/s.", rate, rules.LeastMiB, rules.MostMiB)
	}
	return rate, nil
}

// checkInitialization holds a further rate against what the region has to give.
func (s *Server) checkInitialization(rateMiB int64) error {
	if rateMiB == 0 {
		return nil
	}
	now := s.now()
	sum := rateMiB
	for _, v := range s.volumes {
		if v.filling != nil && now.Before(v.filling.doneAt) && !v.gone(now) && v.goneAt.IsZero() {
			sum += v.filling.rateMiB
		}
	}
	if sum > s.rules.Initialization.SumMiB {
		return refusal("ResourceLimitExceeded", "You have exceeded your maximum cumulative volume initialization rate of %d MiB/s in this region.", s.rules.Initialization.SumMiB)
	}
	return nil
}

type volumeStatusXML struct {
	Volume         string             `xml:"volumeId"`
	Zone           string             `xml:"availabilityZone"`
	Status         string             `xml:"volumeStatus>status"`
	Details        []statusDetailXML  `xml:"volumeStatus>details>item"`
	Initialization *initializationXML `xml:"initializationStatusDetails"`
}

type statusDetailXML struct {
	Name   string `xml:"name"`
	Status string `xml:"status"`
}

type initializationXML struct {
	Type     string `xml:"initializationType"`
	Progress int    `xml:"progress"`
	Left     *int64 `xml:"estimatedTimeToCompleteInSeconds"`
}

type describeVolumeStatusAnswer struct {
	XMLName   xml.Name          `xml:"DescribeVolumeStatusResponse"`
	Statuses  []volumeStatusXML `xml:"volumeStatusSet>item"`
	NextToken string            `xml:"nextToken,omitempty"`
}

func (s *Server) describeVolumeStatus(req request) (any, error) {
	now := s.now()
	found, next, err := query[*volume]{
		prefix: "vol", ids: req.list("VolumeId"),
		unknown: func(id string) error {
			return refusal("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
		},
		all:     sorted(s.volumes),
		id:      func(v *volume) string { return string(v.id) },
		visible: func(v *volume) bool { return v.visible(now) },
		tags:    func(*volume) map[string]string { return nil }, // cannot be filtered by tags
		field: func(v *volume, name string) (string, bool) {
			switch name {
			case "availability-zone":
				return string(v.zone), true
			case "volume-status.status":
				return v.status(now), true
			}
			return "", false
		},
	}.run(req)
	if err != nil {
		return nil, err
	}
	answer := describeVolumeStatusAnswer{NextToken: next}
	for _, v := range found {
		answer.Statuses = append(answer.Statuses, s.volumeStatusXML(v, now))
	}
	return answer, dryRun(req)
}

func (v *volume) status(now time.Time) string {
	switch v.state(now) {
	case ebs.VolumeCreating:
		return "insufficient-data"
	case ebs.VolumeError:
		return "impaired"
	default:
		return "ok"
	}
}

func (s *Server) volumeStatusXML(v *volume, now time.Time) volumeStatusXML {
	out := volumeStatusXML{
		Volume: string(v.id), Zone: string(v.zone), Status: v.status(now),
		Details: []statusDetailXML{{"io-enabled", "passed"}, {"io-performance", "not-applicable"}},
	}
	if v.filling == nil {
		return out
	}
	percent, left := v.filling.progress(now, s.rules.Initialization.Lag)
	out.Initialization = &initializationXML{Type: "default", Progress: percent}
	if v.filling.rateMiB != 0 {
		seconds := int64(left.Seconds())
		out.Initialization.Type, out.Initialization.Left = "provisioned-rate", &seconds
	}
	state := "initializing"
	if percent == 100 {
		state = "completed"
	}
	out.Details = append(out.Details, statusDetailXML{"initialization-state", state})
	return out
}

// Initialized is how far a volume is filled with its snapshot's data, in percent, without delay. A volume
// without a snapshot is full.
func (s *Server) Initialized(id cluster.VolumeID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.volumes[id]
	if !ok || v.filling == nil {
		return 100
	}
	percent, _ := v.filling.progress(s.now(), 0)
	return percent
}
