package ebs

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// span is an inclusive range; the zero value allows nothing to be set.
type span struct{ min, max int64 }

func (s span) settable() bool      { return s != span{} }
func (s span) holds(n int64) bool  { return n >= s.min && n <= s.max }
func (s span) String() string      { return fmt.Sprintf("%d to %d", s.min, s.max) }
func (s span) clamp(n int64) int64 { return min(max(n, s.min), s.max) }

// typeRule is what EC2 allows for one volume type.
type typeRule struct {
	size         span // GiB
	iops         span
	throughput   span  // MiB/s
	iopsPerGiB   int64 // above the minimum
	iopsRequired bool
}

// gp3 needs 4 IOPS for each MiB/s of throughput.
const gp3IOPSPerMiB = 4

// typeRules are those of the newest documents (CloudFormation's AWS::EC2::Volume, and the EBS CSI driver's
// constants for the ratios). Regions may lag behind; EC2 has the last word.
var typeRules = map[string]typeRule{
	"gp2":      {size: span{1, 16384}},
	"gp3":      {size: span{1, 65536}, iops: span{3000, 80000}, throughput: span{125, 2000}, iopsPerGiB: 500},
	"io1":      {size: span{4, 16384}, iops: span{100, 64000}, iopsPerGiB: 50, iopsRequired: true},
	"io2":      {size: span{4, 65536}, iops: span{100, 256000}, iopsPerGiB: 1000, iopsRequired: true},
	"st1":      {size: span{125, 16384}},
	"sc1":      {size: span{125, 16384}},
	"standard": {size: span{1, 1024}},
}

// ValidateSpec reports what EC2 would refuse, as a Usage error whose hint lists what is allowed. Zero IOPS and
// ThroughputMiB mean the type's own default; io1 and io2 have none, so IOPS must be set there.
func ValidateSpec(s cluster.VolumeSpec) error {
	rule, ok := typeRules[s.Type]
	if !ok {
		return refuse(s, "unknown volume type %q", s.Type).WithHint("choose gp3, io1, io2 or gp2")
	}
	switch {
	case !rule.size.holds(s.SizeGiB):
		return refuse(s, "a size of %d GiB is not possible for %s", s.SizeGiB, s.Type).
			WithHint("choose a size from %s GiB", rule.size)
	case s.IOPS != 0 && !rule.iops.settable():
		return refuse(s, "iops cannot be set for %s", s.Type).WithHint("leave iops out, or choose gp3, io1 or io2")
	case s.IOPS == 0 && rule.iopsRequired:
		return refuse(s, "%s has no default iops", s.Type).WithHint("choose iops from %s", rule.iops)
	case s.IOPS != 0 && !rule.iops.holds(s.IOPS):
		return refuse(s, "%d iops are not possible for %s", s.IOPS, s.Type).WithHint("choose iops from %s", rule.iops)
	case s.ThroughputMiB != 0 && !rule.throughput.settable():
		return refuse(s, "throughput cannot be set for %s", s.Type).WithHint("leave throughput out, or choose gp3")
	case s.ThroughputMiB != 0 && !rule.throughput.holds(s.ThroughputMiB):
		return refuse(s, "a throughput of %d MiB/s is not possible for %s", s.ThroughputMiB, s.Type).
			WithHint("choose a throughput from %s MiB/s", rule.throughput)
	}
	return validateRatios(s, rule)
}

func validateRatios(s cluster.VolumeSpec, rule typeRule) error {
	if limit := rule.iops.clamp(s.SizeGiB * rule.iopsPerGiB); s.IOPS > limit {
		return refuse(s, "%d iops are too many for %d GiB of %s: %d per GiB are allowed", s.IOPS, s.SizeGiB, s.Type,
			rule.iopsPerGiB).
			WithHint("set iops to at most %d, or the size to at least %d GiB", limit, ceilDiv(s.IOPS, rule.iopsPerGiB))
	}
	if !rule.throughput.settable() {
		return nil
	}
	iops := cmp.Or(s.IOPS, rule.iops.min)
	if limit := rule.throughput.clamp(iops / gp3IOPSPerMiB); s.ThroughputMiB > limit {
		return refuse(s, "a throughput of %d MiB/s is too high for %d iops", s.ThroughputMiB, iops).
			WithHint("set throughput to at most %d MiB/s, or iops to at least %d", limit, s.ThroughputMiB*gp3IOPSPerMiB)
	}
	return nil
}

// ResolveSpec completes what a user wants for a restored volume and checks it. Zero fields of wanted are
// filled in this order: type and size from source; IOPS and throughput from source if the type stays, else
// the new type's own default. The size is never below the snapshot's. Errors are Usage.
func ResolveSpec(wanted, source cluster.VolumeSpec, snapshotSizeGiB int64) (cluster.VolumeSpec, error) {
	spec := wanted
	source = settable(source)
	spec.Type = strings.ToLower(cmp.Or(spec.Type, source.Type))
	if spec.SizeGiB == 0 {
		spec.SizeGiB = max(source.SizeGiB, snapshotSizeGiB)
	}
	if spec.Type == source.Type {
		spec.IOPS = cmp.Or(spec.IOPS, source.IOPS)
		spec.ThroughputMiB = cmp.Or(spec.ThroughputMiB, source.ThroughputMiB)
	}
	if spec.SizeGiB < snapshotSizeGiB {
		return cluster.VolumeSpec{}, refuse(spec, "a volume of %d GiB cannot hold a snapshot of %d GiB", spec.SizeGiB,
			snapshotSizeGiB).
			WithHint("set the size to at least %d GiB, or leave it out", snapshotSizeGiB)
	}
	if err := ValidateSpec(spec); err != nil {
		return cluster.VolumeSpec{}, err
	}
	return spec, nil
}

// settable is the spec without what EC2 reports but does not take: gp2's IOPS, io2's throughput.
func settable(s cluster.VolumeSpec) cluster.VolumeSpec {
	rule, ok := typeRules[s.Type]
	if !ok {
		return s
	}
	if !rule.iops.settable() {
		s.IOPS = 0
	}
	if !rule.throughput.settable() {
		s.ThroughputMiB = 0
	}
	return s
}

func refuse(s cluster.VolumeSpec, format string, args ...any) *failure.Error {
	return failure.New(failure.Usage, "check volume parameters", s.Text(), format, args...)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
