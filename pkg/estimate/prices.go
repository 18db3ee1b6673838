package estimate

import (
	"bytes"
	_ "embed"
	"os"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/tisnap/tisnap/pkg/failure"
)

//go:embed prices.toml
var defaultPrices []byte

// Prices are what AWS bills, in USD. A nil price is unknown.
type Prices struct {
	Date     string `toml:"date" json:"date"`
	Region   string `toml:"region" json:"region"`
	Snapshot struct {
		GBMonth *float64 `toml:"gb_month"`
		CopyGB  *float64 `toml:"copy_gb"`
		// CopyWithinGB is billed besides for a copy in a time that is asked for.
		CopyWithinGB *float64 `toml:"copy_within_gb"`
	} `toml:"snapshot"`
	GP3 VolumePrice `toml:"gp3"`
	IO2 VolumePrice `toml:"io2"`
	IO1 VolumePrice `toml:"io1"`
	// FastRestore is per hour, snapshot and zone; Initialization per GB of the snapshots' data.
	FastRestore struct {
		Hour *float64 `toml:"hour"`
	} `toml:"fast_restore"`
	Initialization struct {
		GB *float64 `toml:"gb"`
	} `toml:"initialization"`
	// Objects are those of an archive, in S3.
	Objects struct {
		GBMonth *float64 `toml:"gb_month"`
	} `toml:"objects"`
	// Direct are requests to the EBS direct APIs: a block each, or a page of a list.
	Direct struct {
		List1000 *float64 `toml:"list_1000"`
		Get1000  *float64 `toml:"get_1000"`
		Put1000  *float64 `toml:"put_1000"`
	} `toml:"ebs_direct"`
	Requests struct {
		Put1000 *float64 `toml:"put_1000"`
		Get1000 *float64 `toml:"get_1000"`
	} `toml:"requests"`
}

// VolumePrice is the monthly price of a volume type: its size, and what is provisioned above its baseline.
type VolumePrice struct {
	GBMonth   *float64 `toml:"gb_month"`
	IOPSMonth *float64 `toml:"iops_month"`
	MiBMonth  *float64 `toml:"mib_month"`
}

// MonthOfGB is the monthly price of a GiB of snapshots; nil if unknown, as with nil prices.
func (p *Prices) MonthOfGB() *float64 {
	if p == nil {
		return nil
	}
	return p.Snapshot.GBMonth
}

// DefaultPrices returns the prices shipped with the program.
func DefaultPrices() (*Prices, error) { return parsePrices(defaultPrices, "prices.toml") }

// ReadPrices reads a file of prices; "" is the shipped one. A file with an unknown field, a negative price or no date
// is Usage: a misspelt price must not be ignored silently.
func ReadPrices(path string) (*Prices, error) {
	if path == "" {
		return DefaultPrices()
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "read --prices", path)
	}
	return parsePrices(body, path)
}

func parsePrices(body []byte, path string) (*Prices, error) {
	p := new(Prices)
	if err := toml.NewDecoder(bytes.NewReader(body)).DisallowUnknownFields().Decode(p); err != nil {
		return nil, failure.Wrap(err, failure.Usage, "read --prices", path)
	}
	if _, err := time.Parse(time.DateOnly, p.Date); err != nil {
		return nil, failure.New(failure.Usage, "read --prices", path,
			"date %q: want the date of the prices, such as 2026-11-22", p.Date)
	}
	for _, price := range p.all() {
		if price != nil && *price < 0 {
			return nil, failure.New(failure.Usage, "read --prices", path, "a price is negative")
		}
	}
	return p, nil
}

func (p *Prices) all() []*float64 {
	out := []*float64{
		p.Snapshot.GBMonth, p.Snapshot.CopyGB, p.Snapshot.CopyWithinGB,
		p.FastRestore.Hour, p.Initialization.GB, p.Objects.GBMonth,
		p.Direct.List1000, p.Direct.Get1000, p.Direct.Put1000, p.Requests.Put1000, p.Requests.Get1000,
	}
	for _, v := range []VolumePrice{p.GP3, p.IO2, p.IO1} {
		out = append(out, v.GBMonth, v.IOPSMonth, v.MiBMonth)
	}
	return out
}

func (p *Prices) volume(kind string) VolumePrice {
	switch kind {
	case "gp3":
		return p.GP3
	case "io2":
		return p.IO2
	case "io1":
		return p.IO1
	default:
		return VolumePrice{}
	}
}
