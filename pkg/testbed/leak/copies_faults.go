package leak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// copying lists the EC2 actions of a copy that change something.
func copying() []string { return []string{"CopySnapshot", "ModifySnapshotAttribute", "DeleteSnapshot"} }

// addCopyFaults puts a lost answer on every mutating action, at a random call, and some more of all kinds. Of one seed in
// three the program is killed, and of one in six the source loses a snapshot.
func (c *copies) addCopyFaults(ctx context.Context) error {
	m, err := catalog.Catalog{Store: c.from}.Load(ctx, copied) // before a fault could strike that
	if err != nil {
		return err
	}
	for _, action := range copying() {
		if err := c.add(fault.Rule{Point: "ec2." + action, Position: fault.After, Nth: 1 + c.rng.IntN(min(8, c.r.Snapshots)), Times: 1 + c.rng.IntN(2)}); err != nil {
			return err
		}
	}
	for range 1 + c.rng.IntN(4) {
		if err := c.add(c.anotherOfCopy()); err != nil {
			return err
		}
	}
	if c.cfg.Kill != nil && c.rng.IntN(3) == 0 {
		points := []string{
			"ec2.CopySnapshot", "ec2.CopySnapshot", "ec2.DescribeSnapshots", "ec2.ModifySnapshotAttribute", "s3.PutObject", "s3.PutObject",
			"object.manifest.json", "object.seal.json",
		}
		at := []fault.Position{fault.After, fault.Before}[c.rng.IntN(2)]
		r := fault.Rule{Point: points[c.rng.IntN(len(points))], Position: at, Nth: 1 + c.rng.IntN(12), Do: c.cfg.Kill}
		if strings.HasPrefix(r.Point, "object.") {
			r.Nth = 1
		}
		if err := c.add(r); err != nil {
			return err
		}
	}
	if c.rng.IntN(6) == 0 {
		return c.losesSource(m.Snapshots[c.rng.IntN(len(m.Snapshots))].ID)
	}
	return nil
}

// anotherOfCopy is any fault on a call of a copy, or on what becomes of one that EC2 has accepted.
func (c *copies) anotherOfCopy() fault.Rule {
	r := fault.Rule{Nth: 1 + c.rng.IntN(min(12, c.r.Snapshots)), Times: 1 + c.rng.IntN(3)}
	if c.rng.IntN(3) == 0 {
		r.Point, r.Position, r.Code = "ec2.CopySnapshot.late", fault.Before, "An internal error occurred."
		if c.rng.IntN(2) == 0 {
			r.Position, r.Code, r.Delay = fault.Slow, "", time.Duration(c.rng.IntN(60))*time.Second
		}
		return r
	}
	points := []string{
		"ec2.CopySnapshot", "ec2.CopySnapshot", "ec2.DescribeSnapshots", "ec2.DescribeSnapshotAttribute", "ec2.ModifySnapshotAttribute",
		"ec2.DeleteSnapshot", "s3.PutObject", "s3.GetObject",
	}
	r.Point = points[c.rng.IntN(len(points))]
	codes := map[string][]string{
		"ec2": {"RequestLimitExceeded", "InternalError", "UnauthorizedOperation", "ServiceUnavailable", "ResourceLimitExceeded", "SomethingNew"},
		"s3.": {"SlowDown", "InternalError", "AccessDenied"},
	}[r.Point[:3]]
	switch c.rng.IntN(3) {
	case 0:
		r.Position = fault.After
	case 1:
		r.Position, r.Delay = fault.Slow, time.Duration(c.rng.IntN(500))*time.Millisecond
	default:
		r.Position, r.Code = fault.Before, codes[c.rng.IntN(len(codes))]
	}
	return r
}

// losesSource deletes one of the source's snapshots in the middle of the copy.
func (c *copies) losesSource(id cluster.SnapshotID) error {
	r := fault.Rule{Point: "ec2.CopySnapshot", Position: fault.Slow, Nth: 1 + c.rng.IntN(c.r.Snapshots), Do: func() {
		c.lost.Store(c.route.from.LoseSnapshot(id) == nil)
	}}
	return c.addNamed(fmt.Sprintf("lose:%s@%d", r.Point, r.Nth), r)
}
