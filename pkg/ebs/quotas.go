package ebs

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	quota "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
	"github.com/aws/smithy-go"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Codes of Service Quotas for the service "ebs", as the service lists them.
var (
	storageQuotas = map[string]string{
		"L-D18FCD1D": "gp2", "L-7A658B76": "gp3", "L-FD252861": "io1", "L-09BD8365": "io2",
		"L-82ACEF56": "st1", "L-17AF77E8": "sc1", "L-9CF3C2EB": "standard",
	}
	iopsQuotas = map[string]string{"L-B3A130E6": "io1", "L-8D977E7E": "io2"}
)

const (
	snapshotsQuota   = "L-309BACF6"
	fastRestoreQuota = "L-631ECBD3"
	copyRateQuota    = "L-E137849C" // in MiB/s
	// pendingQuota is a name: the quota is in the documents, but not in every list, and its code is unknown.
	pendingQuota = "Pending snapshots"
	gibPerTiB    = 1024
	probeGiB     = 4 // the minimum that every type with IOPS takes
)

// Quotas asks Service Quotas for the account's limits; see Quotas. Kinds: Denied, Limited, Unknown.
func (c *Client) Quotas(ctx context.Context) (AccountQuotas, error) {
	op := operation{
		verb: "list service quotas", action: "servicequotas:ListServiceQuotas", repeatable: true, priority: usual,
	}
	in := servicequotas.ListServiceQuotasInput{ServiceCode: aws.String("ebs"), MaxResults: aws.Int32(100)}
	listed, err := pages(ctx, func(ctx context.Context, token *string) ([]quota.ServiceQuota, *string, error) {
		in.NextToken = token
		var out *servicequotas.ListServiceQuotasOutput
		err := c.call(ctx, op, "ebs", func(ctx context.Context) (err error) {
			out, err = c.quotas.ListServiceQuotas(ctx, &in)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		return out.Quotas, out.NextToken, nil
	})
	if err != nil {
		return AccountQuotas{}, err
	}
	out := AccountQuotas{StorageGiB: map[string]int64{}, IOPS: map[string]int64{}}
	for _, q := range listed {
		out.add(aws.ToString(q.QuotaCode), aws.ToString(q.QuotaName), q.Value)
	}
	return out, nil
}

// add takes one quota over. What is not needed here is left out.
func (q *AccountQuotas) add(code, name string, value *float64) {
	if value == nil || *value < 0 {
		return
	}
	n := int64(math.Floor(*value))
	switch {
	case storageQuotas[code] != "":
		q.StorageGiB[storageQuotas[code]] = int64(math.Floor(*value * gibPerTiB))
	case iopsQuotas[code] != "":
		q.IOPS[iopsQuotas[code]] = n
	case code == snapshotsQuota:
		q.Snapshots = n
	case code == fastRestoreQuota:
		q.FastRestores = n
	case code == copyRateQuota:
		q.CopyRate = n << 20
	case strings.HasPrefix(name, pendingQuota):
		q.PendingSnapshots = n
	}
}

// Usage adds up all volumes of the account in the region. Kinds: Denied, Limited, Unknown.
func (c *Client) Usage(ctx context.Context) (Usage, error) {
	all, err := c.volumePages(ctx, ec2.DescribeVolumesInput{MaxResults: aws.Int32(describePage)})
	if err != nil {
		return Usage{}, err
	}
	used := Usage{StorageGiB: map[string]int64{}, IOPS: map[string]int64{}}
	for _, v := range all {
		if v.State == VolumeDeleting || v.State == VolumeDeleted || v.State == VolumeError {
			continue
		}
		used.StorageGiB[v.Spec.Type] += v.Spec.SizeGiB
		used.IOPS[v.Spec.Type] += v.Spec.IOPS
	}
	return used, nil
}

// tooHigh finds the limit in EC2's refusal of an absurd number of IOPS. The refusal of a ratio of IOPS to size
// has a maximum too, of which nothing follows here.
var tooHigh = regexp.MustCompile(`(?i)\biops of \d+ is too high; maximum is (\d+)`)

// MaxIOPS asks EC2 by a dry run for the most IOPS of one volume of this type in this zone; 0 if EC2 did
// not name it. The trick, and the text, are the EBS CSI driver's. Kinds: Denied, Limited, Usage, Unknown.
func (c *Client) MaxIOPS(ctx context.Context, volumeType string, zone cluster.Zone) (int64, error) {
	rule, ok := typeRules[volumeType]
	if !ok || !rule.iops.settable() {
		return 0, failure.New(failure.Usage, "probe iops limit", volumeType, "iops cannot be set for this volume type")
	}
	op := operation{
		verb: "probe iops limit", action: ActionCreateVolume, repeatable: true, queue: c.pace.createVolume,
		priority: usual,
	}
	most := int64(0)
	err := c.call(ctx, op, volumeType+" in "+string(zone), func(ctx context.Context) error {
		_, err := c.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{
			DryRun: aws.Bool(true), AvailabilityZone: aws.String(string(zone)),
			VolumeType: types.VolumeType(volumeType),
			Size:       aws.Int32(probeGiB), Iops: aws.Int32(math.MaxInt32),
		})
		if classify(err).kind == failure.Usage || codeOf(err) == dryRunAllowed {
			most = limitIn(err)
			return nil
		}
		return err
	})
	return most, err
}

func limitIn(err error) int64 {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return 0
	}
	found := tooHigh.FindStringSubmatch(api.ErrorMessage())
	if found == nil {
		return 0
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
