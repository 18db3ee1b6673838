package ebstest

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
)

// The answers in EC2's XML. A snapshot is spelled differently by CreateSnapshots ("state") and by the other
// calls ("status").

type tagXML struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type snapshotXML struct {
	ID          string   `xml:"snapshotId"`
	Volume      string   `xml:"volumeId"`
	Status      string   `xml:"status"`
	Message     string   `xml:"statusMessage,omitempty"`
	Started     string   `xml:"startTime"`
	Completed   string   `xml:"completionTime,omitempty"`
	Progress    string   `xml:"progress"`
	Owner       string   `xml:"ownerId"`
	Size        int64    `xml:"volumeSize"`
	Description string   `xml:"description"`
	Encrypted   bool     `xml:"encrypted"`
	KMSKey      string   `xml:"kmsKeyId,omitempty"`
	FullBytes   int64    `xml:"fullSnapshotSizeInBytes"`
	Tier        string   `xml:"storageTier"`
	Expires     string   `xml:"restoreExpiryTime,omitempty"`
	Outpost     string   `xml:"outpostArn,omitempty"`
	Transfer    string   `xml:"transferType,omitempty"`
	Minutes     int64    `xml:"completionDurationMinutes,omitempty"`
	Tags        []tagXML `xml:"tagSet>item"`
}

type snapshotInfoXML struct {
	ID          string   `xml:"snapshotId"`
	Volume      string   `xml:"volumeId"`
	State       string   `xml:"state"`
	Started     string   `xml:"startTime"`
	Progress    string   `xml:"progress"`
	Owner       string   `xml:"ownerId"`
	Size        int64    `xml:"volumeSize"`
	Description string   `xml:"description"`
	Encrypted   bool     `xml:"encrypted"`
	Tags        []tagXML `xml:"tagSet>item"`
}

type attachmentXML struct {
	Volume   string `xml:"volumeId"`
	Instance string `xml:"instanceId,omitempty"`
	Device   string `xml:"device,omitempty"`
	Status   string `xml:"status"`
	Attached string `xml:"attachTime"`
	Delete   bool   `xml:"deleteOnTermination"`
}

type volumeXML struct {
	ID          string          `xml:"volumeId"`
	Size        int64           `xml:"size"`
	Snapshot    string          `xml:"snapshotId"`
	Zone        string          `xml:"availabilityZone"`
	Status      string          `xml:"status"`
	Created     string          `xml:"createTime"`
	Type        string          `xml:"volumeType"`
	IOPS        int64           `xml:"iops,omitempty"`
	Throughput  int64           `xml:"throughput,omitempty"`
	FillRate    int64           `xml:"volumeInitializationRate,omitempty"`
	Fast        bool            `xml:"fastRestored,omitempty"`
	Encrypted   bool            `xml:"encrypted"`
	KMSKey      string          `xml:"kmsKeyId,omitempty"`
	Outpost     string          `xml:"outpostArn,omitempty"`
	Tags        []tagXML        `xml:"tagSet>item"`
	Attachments []attachmentXML `xml:"attachmentSet>item"`
}

type stateXML struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

type mappingXML struct {
	Device string        `xml:"deviceName"`
	EBS    attachmentXML `xml:"ebs"`
}

type instanceXML struct {
	ID         string       `xml:"instanceId"`
	State      stateXML     `xml:"instanceState"`
	Type       string       `xml:"instanceType"`
	Launched   string       `xml:"launchTime"`
	Zone       string       `xml:"placement>availabilityZone"`
	RootDevice string       `xml:"rootDeviceName"`
	RootType   string       `xml:"rootDeviceType"`
	Mappings   []mappingXML `xml:"blockDeviceMapping>item"`
}

type reservationXML struct {
	ID        string        `xml:"reservationId"`
	Owner     string        `xml:"ownerId"`
	Instances []instanceXML `xml:"instancesSet>item"`
}

type zoneXML struct {
	Name   string `xml:"zoneName"`
	ID     string `xml:"zoneId"`
	Region string `xml:"regionName"`
	State  string `xml:"zoneState"`
	Type   string `xml:"zoneType"`
	OptIn  string `xml:"optInStatus"`
}

type (
	createSnapshotsAnswer struct {
		XMLName   xml.Name          `xml:"CreateSnapshotsResponse"`
		Snapshots []snapshotInfoXML `xml:"snapshotSet>item"`
	}
	createSnapshotAnswer struct {
		XMLName xml.Name `xml:"CreateSnapshotResponse"`
		snapshotXML
	}
	describeSnapshotsAnswer struct {
		XMLName   xml.Name      `xml:"DescribeSnapshotsResponse"`
		Snapshots []snapshotXML `xml:"snapshotSet>item"`
		NextToken string        `xml:"nextToken,omitempty"`
	}
	createVolumeAnswer struct {
		XMLName xml.Name `xml:"CreateVolumeResponse"`
		volumeXML
	}
	describeVolumesAnswer struct {
		XMLName   xml.Name    `xml:"DescribeVolumesResponse"`
		Volumes   []volumeXML `xml:"volumeSet>item"`
		NextToken string      `xml:"nextToken,omitempty"`
	}
	attachVolumeAnswer struct {
		XMLName xml.Name `xml:"AttachVolumeResponse"`
		attachmentXML
	}
	detachVolumeAnswer struct {
		XMLName xml.Name `xml:"DetachVolumeResponse"`
		attachmentXML
	}
	describeInstancesAnswer struct {
		XMLName      xml.Name         `xml:"DescribeInstancesResponse"`
		Reservations []reservationXML `xml:"reservationSet>item"`
		NextToken    string           `xml:"nextToken,omitempty"`
	}
	describeZonesAnswer struct {
		XMLName xml.Name  `xml:"DescribeAvailabilityZonesResponse"`
		Zones   []zoneXML `xml:"availabilityZoneInfo>item"`
	}
	identityAnswer struct {
		XMLName xml.Name `xml:"GetCallerIdentityResponse"`
		ARN     string   `xml:"GetCallerIdentityResult>Arn"`
		User    string   `xml:"GetCallerIdentityResult>UserId"`
		Account string   `xml:"GetCallerIdentityResult>Account"`
	}
	roleAnswer struct {
		XMLName xml.Name  `xml:"AssumeRoleResponse"`
		Key     string    `xml:"AssumeRoleResult>Credentials>AccessKeyId"`
		Secret  string    `xml:"AssumeRoleResult>Credentials>SecretAccessKey"`
		Token   string    `xml:"AssumeRoleResult>Credentials>SessionToken"`
		Expires time.Time `xml:"AssumeRoleResult>Credentials>Expiration"`
		ARN     string    `xml:"AssumeRoleResult>AssumedRoleUser>Arn"`
	}
	plainAnswer struct {
		XMLName xml.Name
		Return  bool `xml:"return"`
	}
)

// simpleAnswer confirms that an action was done.
func simpleAnswer(action string) plainAnswer {
	return plainAnswer{XMLName: xml.Name{Local: action + "Response"}, Return: true}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// started is the start of a snapshot in real time, however fast this clock runs: a client compares it with the time
// of its own request.
func (s *Server) started(p *snapshot) string { return stamp(s.cfg.Clock.Wall(p.startedAt)) }

func tagsXML(tags map[string]string) []tagXML {
	out := make([]tagXML, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, tagXML{key, tags[key]})
	}
	return out
}

func (s *Server) snapshotXML(p *snapshot) snapshotXML {
	now := s.now()
	v := p.view(now)
	out := snapshotXML{
		ID: string(v.ID), Volume: string(v.Volume), Status: string(v.State), Message: v.Message,
		Started: s.started(p), Completed: stamp(v.CompletedAt), Progress: fmt.Sprintf("%d%%", v.Progress),
		Owner: p.owner.cfg.Account, Size: v.SizeGiB, Description: p.description,
		Encrypted: v.Encrypted, KMSKey: v.KMSKey, FullBytes: v.FullBytes, Tier: p.tier(now), Expires: p.expiry(now), Outpost: p.outpost, Tags: tagsXML(s.shownTags(p)),
	}
	if c := p.copying; c != nil {
		out.Transfer, out.Minutes = "standard", c.minutes
		if c.minutes != 0 {
			out.Transfer = "time-based"
		}
	}
	return out
}

// snapshotInfoXML is how CreateSnapshots answers for a new snapshot: pending, without progress.
func (s *Server) snapshotInfoXML(p *snapshot) snapshotInfoXML {
	return snapshotInfoXML{
		ID: string(p.id), Volume: string(p.volume), State: string(ebs.SnapshotPending), Started: s.started(p),
		Owner: s.cfg.Account, Size: p.spec.SizeGiB, Description: p.description, Encrypted: p.encrypted, Tags: tagsXML(p.tags),
	}
}

func (s *Server) volumeXML(v *volume) volumeXML {
	out := volumeXML{
		ID: string(v.id), Size: v.spec.SizeGiB, Snapshot: string(v.snapshot), Zone: string(v.zone),
		Status: string(v.state(s.now())), Created: stamp(v.createdAt), Type: v.spec.Type,
		IOPS: v.spec.IOPS, Throughput: v.spec.ThroughputMiB, Encrypted: v.encrypted, KMSKey: v.kmsKey, Outpost: v.outpost, Tags: tagsXML(v.tags),
	}
	if v.filling != nil {
		out.FillRate, out.Fast = v.filling.rateMiB, v.fastRestored
	}
	if v.spec.Type == "gp2" { // EC2 reports the baseline, though it cannot be set
		out.IOPS = min(max(3*v.spec.SizeGiB, 100), 16000)
	}
	if a := s.attachmentXML(v); a != nil {
		out.Attachments = []attachmentXML{*a}
	}
	return out
}

// attachmentXML is nil for a volume that is not attached.
func (s *Server) attachmentXML(v *volume) *attachmentXML {
	if v.instance == "" {
		return nil
	}
	return &attachmentXML{
		Volume: string(v.id), Instance: string(v.instance), Device: v.deviceName, Status: "attached",
		Attached: stamp(v.attachedAt), Delete: v.deviceName == rootDevice,
	}
}

func (i *instance) stateXML() stateXML {
	if i.terminated {
		return stateXML{48, "terminated"}
	}
	return stateXML{16, "running"}
}

func (s *Server) reservationXML(i *instance) reservationXML {
	out := instanceXML{
		ID: string(i.id), State: i.stateXML(), Type: "r6i.4xlarge", Launched: stamp(i.launchedAt),
		Zone: string(i.zone), RootDevice: rootDevice, RootType: "ebs",
	}
	for _, v := range s.attached(i.id) {
		a := *s.attachmentXML(v)
		a.Instance, a.Device = "", ""
		out.Mappings = append(out.Mappings, mappingXML{Device: v.deviceName, EBS: a})
	}
	return reservationXML{ID: "r-" + string(i.id)[2:], Owner: s.cfg.Account, Instances: []instanceXML{out}}
}
