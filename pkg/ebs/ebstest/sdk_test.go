package ebstest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
)

// sdk is Amazon's own client: what it writes and reads is the protocol's truth.
func (w *wire) sdk() *ec2.Client { return ec2.NewFromConfig(w.config()) }

func (w *wire) config() aws.Config {
	return aws.Config{
		Region: w.Region(), BaseEndpoint: aws.String(w.URL()), HTTPClient: &http.Client{Transport: w.http.Transport},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
}

func codeOf(t *testing.T, err error) string {
	t.Helper()
	var api smithy.APIError
	require.ErrorAs(t, err, &api)
	return api.ErrorCode()
}

// snapshotOf is a completed snapshot of the volume with so many pages of data.
func (w *wire) snapshotOf(t *testing.T, id cluster.VolumeID, pages int64) *string {
	t.Helper()
	device, err := w.Device(id)
	require.NoError(t, err)
	for n := range pages {
		_, err = device.WriteAt([]byte("x"), n<<16)
		require.NoError(t, err)
	}
	made, err := w.sdk().CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: aws.String(string(id))})
	require.NoError(t, err)
	eventually(t, "completed", func() bool {
		for _, p := range w.Snapshots() {
			if string(p.ID) == *made.SnapshotId {
				return p.State == ebs.SnapshotCompleted
			}
		}
		return false
	})
	return made.SnapshotId
}

func TestFastRestore_CreditsAndQuota_AsDocumented(t *testing.T) {
	t.Parallel()
	w := start(t, 3600, func(r *ebstest.Rules) { r.FastRestore.Snapshots, r.SnapshotSpacing = 1, 0 })
	v, _ := w.volume(t)
	id, other := w.snapshotOf(t, v, 1), w.snapshotOf(t, v, 1)
	enable := &ec2.EnableFastSnapshotRestoresInput{
		AvailabilityZones: []string{string(zone), "us-west-2b"}, SourceSnapshotIds: []string{*id},
	}
	out, err := w.sdk().EnableFastSnapshotRestores(t.Context(), enable)
	require.NoError(t, err)
	require.Empty(t, out.Unsuccessful)
	require.Len(t, out.Successful, 2)
	require.Equal(t, types.FastSnapshotRestoreStateCodeEnabling, out.Successful[0].State)
	require.NotNil(t, out.Successful[0].EnablingTime)
	require.Nil(t, out.Successful[0].EnabledTime)
	require.Equal(t, "usw2-az1", *out.Successful[0].AvailabilityZoneId)

	again, err := w.sdk().EnableFastSnapshotRestores(t.Context(), enable)
	require.NoError(t, err)
	require.Len(t, again.Successful, 2, "what is on stays on")
	over, err := w.sdk().EnableFastSnapshotRestores(t.Context(), &ec2.EnableFastSnapshotRestoresInput{
		AvailabilityZones: []string{string(zone)}, SourceSnapshotIds: []string{*other},
	})
	require.NoError(t, err, "a refusal is in the answer")
	require.Equal(t, "FastSnapshotRestoreLimitExceeded", *over.Unsuccessful[0].FastSnapshotRestoreStateErrors[0].Error.Code)
	require.Equal(t, *other, *over.Unsuccessful[0].SnapshotId)
	_, err = w.sdk().EnableFastSnapshotRestores(t.Context(), &ec2.EnableFastSnapshotRestoresInput{
		AvailabilityZones: []string{string(zone)}, SourceSnapshotIds: make([]string, 11),
	})
	require.Equal(t, "InvalidRequest", codeOf(t, err))

	eventually(t, "the first credit", func() bool { return w.FastRestoreCredits(cluster.SnapshotID(*id), zone) >= 1 })
	seen, err := w.sdk().DescribeFastSnapshotRestores(t.Context(), &ec2.DescribeFastSnapshotRestoresInput{
		Filters: []types.Filter{{Name: aws.String("snapshot-id"), Values: []string{*id}}},
	})
	require.NoError(t, err)
	require.Len(t, seen.FastSnapshotRestores, 2)
	first := seen.FastSnapshotRestores[0]
	require.Equal(t, types.FastSnapshotRestoreStateCodeEnabled, first.State)
	// 10 GiB of 60 min a TiB, and the first of 10 credits an hour 6 min later.
	require.Equal(t, 35*time.Second, first.EnabledTime.Sub(*first.OptimizingTime).Truncate(time.Second))

	create := func() *ec2.CreateVolumeOutput { // the client makes a token up for each input
		made, err := w.sdk().CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String(string(zone)), SnapshotId: id})
		require.NoError(t, err)
		return made
	}
	made := create()
	require.True(t, *made.FastRestored)
	require.Equal(t, 100, w.Initialized(cluster.VolumeID(*made.VolumeId)))

	off, err := w.sdk().DisableFastSnapshotRestores(t.Context(), &ec2.DisableFastSnapshotRestoresInput{
		AvailabilityZones: enable.AvailabilityZones, SourceSnapshotIds: enable.SourceSnapshotIds,
	})
	require.NoError(t, err)
	require.Len(t, off.Successful, 2)
	require.Empty(t, w.FastRestores())
	require.Nil(t, create().FastRestored, "without it a volume fills by itself")
}

func TestModifyVolume_Lifecycle_FourIn24Hours(t *testing.T) {
	t.Parallel()
	w := start(t, 600, func(r *ebstest.Rules) {
		r.Modification = ebstest.ModificationRules{
			Most: 4, Within: 24 * time.Hour, PerTiB: 1024 * time.Minute, // 10 min
			Modifying: ebstest.Span{Least: time.Minute, Most: time.Minute},
		}
	})
	id, _ := w.volume(t)
	modify := func(iops, size int32) (types.VolumeModification, error) {
		out, err := w.sdk().ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{
			VolumeId: aws.String(string(id)), Iops: aws.Int32(iops), Size: aws.Int32(size), Throughput: aws.Int32(250),
		})
		if err != nil {
			return types.VolumeModification{}, err
		}
		return *out.VolumeModification, nil
	}
	_, err := modify(4000, 5)
	require.Equal(t, "InvalidParameterValue", codeOf(t, err), "a volume cannot shrink")
	m, err := modify(4000, 20)
	require.NoError(t, err)
	require.Equal(t, types.VolumeModificationStateModifying, m.ModificationState)
	require.EqualValues(t, []int32{3000, 10, 4000, 20, 250}, []int32{*m.OriginalIops, *m.OriginalSize, *m.TargetIops, *m.TargetSize, *m.TargetThroughput})
	before, _ := w.Volume(id)
	require.EqualValues(t, 3000, before.Spec.IOPS, "the old ones hold until it is optimizing")
	_, err = modify(5000, 20)
	require.Equal(t, "IncorrectModificationState", codeOf(t, err))

	describe := func() types.VolumeModification {
		out, err := w.sdk().DescribeVolumesModifications(t.Context(), &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{string(id)}})
		require.NoError(t, err)
		return out.VolumesModifications[0]
	}
	eventually(t, "optimizing", func() bool { return describe().ModificationState == types.VolumeModificationStateOptimizing })
	after, _ := w.Volume(id)
	require.Equal(t, cluster.VolumeSpec{Type: "gp3", SizeGiB: 20, IOPS: 4000, ThroughputMiB: 250}, after.Spec)
	eventually(t, "completed", func() bool { return describe().ModificationState == types.VolumeModificationStateCompleted })
	require.EqualValues(t, 100, *describe().Progress)
	require.NotNil(t, describe().EndTime)
	for more := range int32(3) {
		_, err = modify(5000+more, 20)
		require.NoError(t, err)
		eventually(t, "completed", func() bool { return describe().ModificationState == types.VolumeModificationStateCompleted })
	}
	_, err = modify(6000, 20)
	require.Equal(t, "VolumeModificationRateExceeded", codeOf(t, err))
	_, err = w.sdk().DescribeVolumesModifications(t.Context(), &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{w.first()}})
	require.Equal(t, "InvalidVolumeModification.NotFound", codeOf(t, err))
}

func TestModifyVolume_Fails_OldParametersStay(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	id, _ := w.volume(t)
	_, err := w.sdk().ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{VolumeId: aws.String(string(id)), Iops: aws.Int32(4000)})
	require.NoError(t, err)
	require.NoError(t, w.FailModification(id, "it broke"))
	out, err := w.sdk().DescribeVolumesModifications(t.Context(), &ec2.DescribeVolumesModificationsInput{})
	require.NoError(t, err)
	require.Equal(t, types.VolumeModificationStateFailed, out.VolumesModifications[0].ModificationState)
	require.Equal(t, "it broke", *out.VolumesModifications[0].StatusMessage)
	v, _ := w.Volume(id)
	require.EqualValues(t, 3000, v.Spec.IOPS)
}

func TestInitializationRate_RegionalSum_Bounds(t *testing.T) {
	t.Parallel()
	w := start(t, 60, func(r *ebstest.Rules) {
		r.ByteScale, r.Initialization.SumMiB = 1<<20, 400 // a page stands for 64 GiB
	})
	v, _ := w.volume(t)
	id := w.snapshotOf(t, v, 1)
	create := func(rate int32) (*ec2.CreateVolumeOutput, error) {
		return w.sdk().CreateVolume(t.Context(), &ec2.CreateVolumeInput{
			AvailabilityZone: aws.String(string(zone)), SnapshotId: id, VolumeInitializationRate: aws.Int32(rate),
		})
	}
	_, err := create(301)
	require.Equal(t, "InvalidParameterValue", codeOf(t, err))
	made, err := create(300)
	require.NoError(t, err)
	_, err = create(200)
	require.Equal(t, "ResourceLimitExceeded", codeOf(t, err))
	_, err = create(100)
	require.NoError(t, err)
	_, err = w.sdk().CreateVolume(t.Context(), &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String(string(zone)), Size: aws.Int32(1), VolumeInitializationRate: aws.Int32(100),
	})
	require.Equal(t, "InvalidArgument", codeOf(t, err), "an empty volume has nothing to be filled with")
	status := func() types.VolumeStatusItem {
		out, err := w.sdk().DescribeVolumeStatus(t.Context(), &ec2.DescribeVolumeStatusInput{VolumeIds: []string{*made.VolumeId}})
		require.NoError(t, err)
		return out.VolumeStatuses[0]
	}
	first := status().InitializationStatusDetails
	require.Equal(t, types.InitializationTypeProvisionedRate, first.InitializationType)
	require.Less(t, *first.Progress, int64(100))
	require.Positive(t, *first.EstimatedTimeToCompleteInSeconds) // 64 GiB at 300 MiB/s: 218 s
	eventually(t, "filled", func() bool { return *status().InitializationStatusDetails.Progress == 100 })
	require.Equal(t, types.VolumeStatusInfoStatusOk, status().VolumeStatus.Status)
}

func TestServiceQuotas_Listed_AsTheRulesAre(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	client := servicequotas.NewFromConfig(w.config())
	got := map[string]float64{}
	pages := servicequotas.NewListServiceQuotasPaginator(client, &servicequotas.ListServiceQuotasInput{ServiceCode: aws.String("ebs")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, quota := range page.Quotas {
			got[*quota.QuotaName] = *quota.Value
		}
	}
	require.Equal(t, map[string]float64{
		"Pending snapshots per account": 100, "Snapshots per Region": 100000, "Fast snapshot restore": 5,
		"Storage for General Purpose SSD (gp3) volumes, in TiB":  50,
		"Storage for Provisioned IOPS SSD (io2) volumes, in TiB": 20,
		"IOPS for Provisioned IOPS SSD (io2) volumes":            100000,

		"Cumulative throughput of time-based snapshot copies, in MiB/s": 2000,
	}, got)
	one, err := client.GetServiceQuota(t.Context(), &servicequotas.GetServiceQuotaInput{
		ServiceCode: aws.String("ebs"), QuotaCode: aws.String("L-631ECBD3"),
	})
	require.NoError(t, err)
	require.EqualValues(t, 5, *one.Quota.Value)
	w.Deny("ListServiceQuotas")
	_, err = client.ListServiceQuotas(t.Context(), &servicequotas.ListServiceQuotasInput{ServiceCode: aws.String("ebs")})
	require.Equal(t, "AccessDeniedException", codeOf(t, err))
}
