package ebstest

import (
	"cmp"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// params is what EC2 allows for a volume type. This is written apart from the adapter's own rules, so that
// a mistake in one shows against the other.
type params struct {
	minSize, maxSize             int64
	minIOPS, maxIOPS             int64 // 0: iops is not supported
	minThroughput, maxThroughput int64 // 0: throughput is not supported
	maxIOPSPerGiB                int64
	defaultIOPS, defaultMiB      int64
}

var paramsOf = map[string]params{
	"gp2":      {minSize: 1, maxSize: 16 << 10},
	"gp3":      {minSize: 1, maxSize: 64 << 10, minIOPS: 3000, maxIOPS: 80000, minThroughput: 125, maxThroughput: 2000, maxIOPSPerGiB: 500, defaultIOPS: 3000, defaultMiB: 125},
	"io1":      {minSize: 4, maxSize: 16 << 10, minIOPS: 100, maxIOPS: 64000, maxIOPSPerGiB: 50},
	"io2":      {minSize: 4, maxSize: 64 << 10, minIOPS: 100, maxIOPS: 256000, maxIOPSPerGiB: 1000},
	"st1":      {minSize: 125, maxSize: 16 << 10},
	"sc1":      {minSize: 125, maxSize: 16 << 10},
	"standard": {minSize: 1, maxSize: 1 << 10},
}

// readSpec reads the parameters of CreateVolume and fills in the type's defaults.
func (s *Server) readSpec(req request, source *snapshot) (cluster.VolumeSpec, error) {
	spec := cluster.VolumeSpec{Type: cmp.Or(req.text("VolumeType"), "gp2")}
	var err error
	if spec.SizeGiB, err = req.number("Size"); err != nil {
		return spec, err
	}
	if spec.IOPS, err = req.number("Iops"); err != nil {
		return spec, err
	}
	if spec.ThroughputMiB, err = req.number("Throughput"); err != nil {
		return spec, err
	}
	if source != nil {
		if spec.SizeGiB == 0 {
			spec.SizeGiB = source.spec.SizeGiB
		}
		if spec.SizeGiB < source.spec.SizeGiB {
			return spec, refusal("InvalidParameterValue", "Volume of %dGiB is smaller than snapshot '%s', expect size >= %dGiB", spec.SizeGiB, source.id, source.spec.SizeGiB)
		}
	} else if spec.SizeGiB == 0 {
		return spec, refusal("MissingParameter", "The request must contain the parameter size/snapshot")
	}
	return s.completeSpec(spec)
}

// completeSpec checks a specification by EC2's rules and fills in the type's defaults.
func (s *Server) completeSpec(spec cluster.VolumeSpec) (cluster.VolumeSpec, error) {
	p, ok := paramsOf[spec.Type]
	switch {
	case !ok:
		return spec, refusal("InvalidParameterValue", "Value (%s) for parameter volumeType is invalid.", spec.Type)
	case spec.SizeGiB < p.minSize || spec.SizeGiB > p.maxSize:
		return spec, refusal("InvalidParameterValue", "Volume size must be between %d and %d GiB for %s.", p.minSize, p.maxSize, spec.Type)
	case spec.IOPS != 0 && p.minIOPS == 0:
		return spec, refusal("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", spec.Type)
	case spec.ThroughputMiB != 0 && p.minThroughput == 0:
		return spec, refusal("InvalidParameterCombination", "The parameter throughput is not supported for %s volumes.", spec.Type)
	case spec.IOPS == 0 && p.minIOPS != 0 && p.defaultIOPS == 0:
		return spec, refusal("MissingParameter", "The parameter iops must be specified for %s volumes.", spec.Type)
	}
	spec.IOPS = cmp.Or(spec.IOPS, p.defaultIOPS)
	spec.ThroughputMiB = cmp.Or(spec.ThroughputMiB, p.defaultMiB)
	if most, ok := s.rules.MaxIOPS[spec.Type]; ok && p.maxIOPS != 0 {
		p.maxIOPS = min(p.maxIOPS, most)
	}
	return spec, p.checkRates(spec)
}

// checkRates checks IOPS and throughput against the type's limits and each other.
func (p params) checkRates(spec cluster.VolumeSpec) error {
	switch {
	case spec.IOPS != 0 && spec.IOPS < p.minIOPS:
		return refusal("InvalidParameterValue", "Volume iops of %d is too low; minimum is %d.", spec.IOPS, p.minIOPS)
	case spec.IOPS > p.maxIOPS: // tools read the limit out of this text, by a dry run
		return refusal("InvalidParameterValue", "Volume iops of %d is too high; maximum is %d.", spec.IOPS, p.maxIOPS)
	case spec.ThroughputMiB != 0 && (spec.ThroughputMiB < p.minThroughput || spec.ThroughputMiB > p.maxThroughput):
		return refusal("InvalidParameterValue", "Volume throughput of %d is out of range; it must be between %d and %d MiB/s.", spec.ThroughputMiB, p.minThroughput, p.maxThroughput)
	case spec.IOPS > p.minIOPS && spec.IOPS > spec.SizeGiB*p.maxIOPSPerGiB:
		return refusal("InvalidParameterCombination", "Iops to volume size ratio of %d is too high; maximum is %d", spec.IOPS/spec.SizeGiB, p.maxIOPSPerGiB)
	case spec.ThroughputMiB*4 > spec.IOPS && spec.ThroughputMiB != 0:
		return refusal("InvalidParameterCombination", "Throughput (MiBps) to iops ratio is too high; maximum is 0.25 MiBps per iops.")
	}
	return nil
}
