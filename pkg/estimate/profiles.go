package estimate

import "github.com/tisnap/tisnap/pkg/cluster"

// Choice is a way to restore, with its estimate.
type Choice struct {
	Name     string    `json:"name"`
	Estimate *Estimate `json:"estimate"`
	// Fastest has the shortest time, Cheapest the lowest bill for the restore and a month of its volumes.
	Fastest  bool `json:"fastest,omitempty"`
	Cheapest bool `json:"cheapest,omitempty"`
}

// Profiles estimates the restore on the usual volume profiles, each with the data of in. The fastest and the cheapest
// are marked; one with an unknown price is never the cheapest.
func Profiles(in Input, fit *Fit, p *Prices) ([]Choice, error) {
	var out []Choice
	for _, c := range []struct {
		name string
		spec cluster.VolumeSpec
		fast bool
		rate int64
	}{
		{"gp3 3000/125", cluster.VolumeSpec{Type: "gp3", IOPS: 3000, ThroughputMiB: 125}, false, 0},
		{"gp3 7000/400", cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}, false, 0},
		{"gp3 16000/1000", cluster.VolumeSpec{Type: "gp3", IOPS: 16000, ThroughputMiB: 1000}, false, 0},
		{"io2 16000", cluster.VolumeSpec{Type: "io2", IOPS: 16000}, false, 0},
		{"gp3 7000/400, FSR", cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}, true, 0},
		{"gp3 7000/400, 300 MiB/s", cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}, false, 300},
	} {
		try := in
		c.spec.SizeGiB = in.Spec.SizeGiB
		try.Spec, try.FastRestore, try.InitializationMiB = c.spec, c.fast, c.rate
		e, err := Of(try, fit, p)
		if err != nil {
			return nil, err
		}
		out = append(out, Choice{Name: c.name, Estimate: e})
	}
	fastest, cheapest := 0, -1
	for i, c := range out {
		if c.Estimate.Total.Seconds < out[fastest].Estimate.Total.Seconds {
			fastest = i
		}
		if c.Estimate.Cost.Known() && (cheapest < 0 || c.billed() < out[cheapest].billed()) {
			cheapest = i
		}
	}
	out[fastest].Fastest = true
	if cheapest >= 0 {
		out[cheapest].Cheapest = true
	}
	return out, nil
}

func (c Choice) billed() float64 { return c.Estimate.Cost.OnceUSD + c.Estimate.Cost.MonthUSD }
