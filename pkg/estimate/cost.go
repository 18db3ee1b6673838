package estimate

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/report"
)

// Cost is what AWS bills, by item.
type Cost struct {
	Items []Item `json:"items"`
	// OnceUSD and MonthUSD are the sums of the items with a known price.
	OnceUSD  float64 `json:"onceUSD"`
	MonthUSD float64 `json:"monthUSD"`
	// Date and Region are those of the prices.
	Date   string `json:"date"`
	Region string `json:"region"`
}

// Item is one thing that AWS bills.
type Item struct {
	Name string `json:"name"`
	// USD is nil if the price is unknown.
	USD *float64 `json:"usd"`
	// Month means that it is billed each month while it exists, not once.
	Month bool   `json:"month,omitempty"`
	Note  string `json:"note,omitempty"`
}

// Known reports whether every item's price is known.
func (c Cost) Known() bool {
	for _, i := range c.Items {
		if i.USD == nil {
			return false
		}
	}
	return true
}

func (c *Cost) add(name string, month bool, amount float64, price *float64, note string) {
	item := Item{Name: name, Month: month, Note: note}
	if price != nil {
		usd := amount * *price
		item.USD = &usd
		if month {
			c.MonthUSD += usd
		} else {
			c.OnceUSD += usd
		}
	}
	c.Items = append(c.Items, item)
}

// of returns what the run costs; with a nil p every price is unknown.
func (p *Prices) of(in Input, seconds float64) Cost {
	if p == nil {
		return Cost{}
	}
	c := Cost{Date: p.Date, Region: p.Region}
	if in.Operation == report.Backup {
		p.backup(&c, in)
	} else {
		p.restore(&c, in, seconds)
	}
	p.requests(&c, in)
	return c
}

func (p *Prices) backup(c *Cost, in Input) {
	gb := float64(in.ChangedBytes) / (1 << 30) // AWS's GB of storage is a GiB
	c.add("snapshot storage", true, gb, p.Snapshot.GBMonth, "for changed blocks, while the backup is kept")
	if in.OtherRegion {
		c.add("transfer to another region", false, gb, p.Snapshot.CopyGB, "")
		c.add("snapshot storage there", true, gb, p.Snapshot.GBMonth, "")
	}
}

func (p *Prices) restore(c *Cost, in Input, seconds float64) {
	price, n := p.volume(in.Spec.Type), float64(in.Volumes)
	c.add("volumes", true, float64(in.SizesGiB), price.GBMonth, "while the cluster exists")
	if extra := in.Spec.IOPS - freeIOPS(in.Spec); extra > 0 {
		c.add("volumes' IOPS", true, n*float64(extra), price.IOPSMonth, "")
	}
	if extra := in.Spec.ThroughputMiB - gp3MiB; extra > 0 && in.Spec.Type == "gp3" {
		c.add("volumes' throughput", true, n*float64(extra), price.MiBMonth, "")
	}
	if in.FastRestore {
		c.add("fast snapshot restore", false, n*max(seconds/3600, 1), p.FastRestore.Hour,
			"in one zone, until the volumes exist")
	}
	if in.InitializationMiB > 0 {
		c.add("initialization rate", false, float64(in.DataBytes)/(1<<30), p.Initialization.GB, "")
	}
	if in.OtherRegion {
		c.add("transfer to another region", false, float64(in.DataBytes)/(1<<30), p.Snapshot.CopyGB, "")
	}
}

func freeIOPS(s cluster.VolumeSpec) int64 {
	if s.Type == "gp3" {
		return gp3IOPS
	}
	return 0
}

// requests are those to S3: calls to EC2 are free. A run writes some forty records, and progress.
func (p *Prices) requests(c *Cost, in Input) {
	const puts, gets = 60, 40
	if p.Requests.Put1000 == nil || p.Requests.Get1000 == nil {
		c.add("requests to S3", false, 0, nil, "")
		return
	}
	usd := (puts + 2*float64(in.Stores)) / 1000 * *p.Requests.Put1000
	one := usd + gets/1000.0**p.Requests.Get1000
	c.add("requests to S3", false, 1, &one, "")
}
