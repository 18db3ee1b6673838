package doctor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/doctor"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// statuses are the outcomes by name and subject.
func statuses(checks []doctor.Check) map[string]doctor.Status {
	out := map[string]doctor.Status{}
	for _, c := range checks {
		out[c.Name+" "+c.Subject] = c.Status
	}
	return out
}

func refused(context.Context) (doctor.Kube, error) {
	return nil, failure.New(failure.Usage, "read kubeconfig", "", "no such file").WithHint("set --kubeconfig")
}

func noBlocks(context.Context) (ebsdirect.Source, error) {
	return nil, failure.New(failure.Usage, "connect", "", "no region")
}

func memory(context.Context) (objstore.Store, error) { return objstoretest.NewMemory(nil), nil }

// A side that never answers ends its own checks at their limit, and no other.
func TestRun_OneSideHangs_TheOthersAreReported(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got := statuses(doctor.Run(ctx, doctor.Deps{
		Kube: refused, Store: memory, Blocks: noBlocks, Now: time.Now, Limit: 100 * time.Millisecond,
		EBS: func(ctx context.Context) (doctor.EBS, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}, cluster.Name{Namespace: "tidb", Name: "prod"}, doctor.All))
	require.NoError(t, ctx.Err(), "it waited for more than the limit")
	require.Equal(t, doctor.Fail, got["kubernetes tidb/prod"])
	require.Equal(t, doctor.Fail, got["ec2 account"])
	require.Equal(t, doctor.Unknown, got["iam ec2:CreateVolume"])
	require.Equal(t, doctor.Unknown, got["tikv resolved ts"])
	require.Equal(t, doctor.OK, got["storage writes"])
}

// A check that panics was not made.
func TestRun_Panic_IsUnknown(t *testing.T) {
	t.Parallel()
	got := statuses(doctor.Run(t.Context(), doctor.Deps{
		Kube: refused, Store: memory, Blocks: noBlocks, Now: time.Now, Limit: time.Minute,
		EBS: func(context.Context) (doctor.EBS, error) { panic("a bug") },
	}, cluster.Name{Namespace: "tidb", Name: "prod"}, doctor.GC))
	require.Equal(t, doctor.Unknown, got["ec2 account"])
	require.Equal(t, doctor.OK, got["storage writes"])
}

// keeper is a KMS that fails with these errors.
type keeper struct{ encrypt, decrypt error }

func (k keeper) EncryptByKey(_ context.Context, _ string, plain []byte, _ map[string]string) ([]byte, error) {
	return plain, k.encrypt
}

func (k keeper) DecryptByKey(_ context.Context, _ string, sealed []byte, _ map[string]string) ([]byte, error) {
	return sealed, k.decrypt
}

// A KMS key of archives has to encrypt and decrypt; one that may only be read by cannot be tried.
func TestRun_ArchiveKeys_AreTried(t *testing.T) {
	t.Parallel()
	denied, disabled := failure.New(failure.Denied, "encrypt", "", "no"), failure.New(failure.Unready, "decrypt", "", "disabled")
	for name, row := range map[string]struct {
		kms     keeper
		purpose doctor.Purpose
		want    doctor.Status
	}{
		"both work":        {keeper{}, doctor.Archive, doctor.OK},
		"may not encrypt":  {keeper{encrypt: denied}, doctor.Archive, doctor.Warn},
		"cannot encrypt":   {keeper{encrypt: disabled}, doctor.Archive, doctor.Fail},
		"may not decrypt":  {keeper{decrypt: denied}, doctor.All, doctor.Fail},
		"is not asked for": {keeper{decrypt: denied}, doctor.GC, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := statuses(doctor.Run(t.Context(), doctor.Deps{
				Kube: refused, Store: memory, Blocks: noBlocks, Now: time.Now, Limit: time.Minute, ArchiveKeys: []string{"arn"},
				KMS: row.kms, EBS: func(context.Context) (doctor.EBS, error) { return nil, denied },
			}, cluster.Name{Namespace: "tidb", Name: "prod"}, row.purpose))
			require.Equal(t, row.want, got["kms arn"])
		})
	}
}
