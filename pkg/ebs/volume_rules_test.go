package ebs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestValidate_Limits_AllowedOrRefusedWithHint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec cluster.VolumeSpec
		hint string // empty: allowed
	}{
		"gp3 minimum":                {spec("gp3", 1, 3000, 125), ""},
		"gp3 defaults":               {spec("gp3", 100, 0, 0), ""},
		"gp3 maximum":                {spec("gp3", 65536, 80000, 2000), ""},
		"gp3 80000 iops at 160":      {spec("gp3", 160, 80000, 0), ""},
		"gp3 80000 iops at 159":      {spec("gp3", 159, 80000, 0), "set iops to at most 79500, or the size to at least 160 GiB"},
		"gp3 too small for its iops": {spec("gp3", 2, 3001, 0), "set iops to at most 3000, or the size to at least 7 GiB"},
		"gp3 too few iops":           {spec("gp3", 100, 2999, 0), "choose iops from 3000 to 80000"},
		"gp3 too many iops":          {spec("gp3", 65536, 80001, 0), "choose iops from 3000 to 80000"},
		"gp3 750 by default iops":    {spec("gp3", 100, 0, 750), ""},
		"gp3 751 by default iops":    {spec("gp3", 100, 0, 751), "set throughput to at most 750 MiB/s, or iops to at least 3004"},
		"gp3 2000 at 8000":           {spec("gp3", 100, 8000, 2000), ""},
		"gp3 2000 at 7999":           {spec("gp3", 100, 7999, 2000), "set throughput to at most 1999 MiB/s, or iops to at least 8000"},
		"gp3 throughput too low":     {spec("gp3", 100, 3000, 124), "choose a throughput from 125 to 2000 MiB/s"},
		"gp3 too large":              {spec("gp3", 65537, 0, 0), "choose a size from 1 to 65536 GiB"},
		"gp3 nothing":                {spec("gp3", 0, 0, 0), "choose a size from 1 to 65536 GiB"},
		"gp3 negative":               {spec("gp3", 10, -1, 0), "choose iops from 3000 to 80000"},
		"gp2":                        {spec("gp2", 16384, 0, 0), ""},
		"gp2 iops":                   {spec("gp2", 100, 3000, 0), "leave iops out, or choose gp3, io1 or io2"},
		"gp2 throughput":             {spec("gp2", 100, 0, 125), "leave throughput out, or choose gp3"},
		"gp2 too large":              {spec("gp2", 16385, 0, 0), "choose a size from 1 to 16384 GiB"},
		"io1 at its ratio":           {spec("io1", 100, 5000, 0), ""},
		"io1 above its ratio":        {spec("io1", 100, 5001, 0), "set iops to at most 5000, or the size to at least 101 GiB"},
		"io1 without iops":           {spec("io1", 100, 0, 0), "choose iops from 100 to 64000"},
		"io1 too small":              {spec("io1", 3, 100, 0), "choose a size from 4 to 16384 GiB"},
		"io2 most":                   {spec("io2", 256, 256000, 0), ""},
		"io2 above its ratio":        {spec("io2", 255, 256000, 0), "set iops to at most 255000, or the size to at least 256 GiB"},
		"io2 throughput":             {spec("io2", 100, 3000, 500), "leave throughput out, or choose gp3"},
		"unknown type":               {spec("gp4", 100, 0, 0), "choose gp3, io1, io2 or gp2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := ebs.ValidateSpec(test.spec)
			if test.hint == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.Equal(t, test.hint, failure.HintOf(err))
		})
	}
}

func TestResolveSpec_Cases(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wanted, source cluster.VolumeSpec
		snapshot       int64
		want           cluster.VolumeSpec
		refused        bool
	}{
		"nothing wanted keeps all":        {cluster.VolumeSpec{}, spec("gp3", 100, 6000, 400), 100, spec("gp3", 100, 6000, 400), false},
		"same type keeps what is not set": {cluster.VolumeSpec{Type: "gp3", IOPS: 8000}, spec("gp3", 100, 6000, 400), 100, spec("gp3", 100, 8000, 400), false},
		"other type takes its defaults":   {cluster.VolumeSpec{Type: "gp3"}, spec("io2", 100, 9000, 0), 100, spec("gp3", 100, 0, 0), false},
		"reported iops of gp2 are not":    {cluster.VolumeSpec{}, spec("gp2", 100, 300, 0), 100, spec("gp2", 100, 0, 0), false},
		"grown source":                    {cluster.VolumeSpec{}, spec("gp3", 80, 0, 0), 100, spec("gp3", 100, 0, 0), false},
		"larger":                          {cluster.VolumeSpec{SizeGiB: 200}, spec("gp3", 100, 0, 0), 100, spec("gp3", 200, 0, 0), false},
		"upper case":                      {cluster.VolumeSpec{Type: "GP3"}, spec("gp2", 100, 0, 0), 100, spec("gp3", 100, 0, 0), false},
		"smaller than the snapshot":       {cluster.VolumeSpec{SizeGiB: 99}, spec("gp3", 100, 0, 0), 100, cluster.VolumeSpec{}, true},
		"provisioned type without iops":   {cluster.VolumeSpec{Type: "io2"}, spec("gp3", 100, 6000, 0), 100, cluster.VolumeSpec{}, true},
		"throughput on gp2":               {cluster.VolumeSpec{Type: "gp2", ThroughputMiB: 250}, spec("gp3", 100, 0, 0), 100, cluster.VolumeSpec{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ebs.ResolveSpec(test.wanted, test.source, test.snapshot)
			require.Equal(t, test.refused, err != nil, "%v", err)
			require.Equal(t, test.want, got)
			if test.refused {
				require.Equal(t, failure.Usage, failure.KindOf(err))
				require.NotEmpty(t, failure.HintOf(err))
			}
		})
	}
}

func spec(volumeType string, sizeGiB, iops, throughput int64) cluster.VolumeSpec {
	return cluster.VolumeSpec{Type: volumeType, SizeGiB: sizeGiB, IOPS: iops, ThroughputMiB: throughput}
}

func anySpec(t *rapid.T, label string) cluster.VolumeSpec {
	near := func(name string, values ...int64) int64 {
		return rapid.SampledFrom(values).Draw(t, label+name) + rapid.Int64Range(-2, 2).Draw(t, label+name+" off")
	}
	return cluster.VolumeSpec{
		Type:          rapid.SampledFrom([]string{"gp2", "gp3", "io1", "io2", "st1", "sc1", "standard", "gp4"}).Draw(t, label+"type"),
		SizeGiB:       max(near("size", 2, 4, 100, 125, 1024, 16384, 65536, 160), 1),
		IOPS:          max(near("iops", 0, 100, 3000, 5000, 8000, 64000, 80000, 256000), 0),
		ThroughputMiB: max(near("throughput", 0, 125, 750, 1000, 2000), 0),
	}
}

// The adapter's rules and the stand-in's are written apart from each other.
func TestValidate_AnySpec_AgreesWithTheStandIn(t *testing.T) {
	t.Parallel()
	server := ebstest.New(ebstest.Config{})
	rapid.Check(t, func(t *rapid.T) {
		spec := anySpec(t, "")
		_, ec2 := server.CreateVolumeDirect(zone, spec, nil)
		ours := ebs.ValidateSpec(spec)
		if (ec2 == nil) != (ours == nil) {
			t.Fatalf("%s: ec2: %v, ours: %v", spec.Text(), ec2, ours)
		}
	})
}

func TestResolveSpec_AnyInput_ValidOrUsage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		wanted, source := anySpec(t, "wanted "), anySpec(t, "source ")
		size := rapid.Int64Range(1, 200).Draw(t, "snapshot")
		spec, err := ebs.ResolveSpec(wanted, source, size)
		switch {
		case err != nil && (failure.KindOf(err) != failure.Usage || failure.HintOf(err) == ""):
			t.Fatalf("not a helpful error: %v", err)
		case err == nil && (ebs.ValidateSpec(spec) != nil || spec.SizeGiB < size):
			t.Fatalf("resolved to %s for a snapshot of %d GiB", spec.Text(), size)
		}
	})
}
