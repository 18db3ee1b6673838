package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func refused(store int) error {
	err := failure.New(failure.Denied, "create volume", fmt.Sprintf("snap-%d", store), "AccessDenied: no (request %d)", store)
	return failure.Annotate(err, "create volume", fmt.Sprintf("store %d", store))
}

// TestErrorsOfManyVolumes_ArePrintedOnce is a role without a permission, met by three hundred volumes.
func TestErrorsOfManyVolumes_ArePrintedOnce(t *testing.T) {
	t.Parallel()
	var errs []error
	for store := range 300 {
		errs = append(errs, refused(store))
	}
	err := failure.Join(errs...)
	require.Equal(t, "create volume of store 0: create volume of snap-0: AccessDenied: no (request 0) (the same for "+
		"store 1, store 2, store 3, store 4, store 5, store 6, store 7, store 8, store 9, store 10, and 289 more)", err.Error())
	require.Equal(t, failure.Denied, failure.KindOf(err))
}

// Kubernetes names the object in its message again, without the namespace.
func TestJoin_ClaimsThatAQuotaRefuses_ArePrintedOnce(t *testing.T) {
	t.Parallel()
	claim := func(n int, used string) error {
		name := fmt.Sprintf("tikv-copy-tikv-%d", n)
		return failure.New(failure.Unready, "try to create claim", "tidb/"+name, "persistentvolumeclaims %q is forbidden: exceeded quota: small, used: %s", name, used)
	}
	require.Equal(t, `try to create claim of tidb/tikv-copy-tikv-0: persistentvolumeclaims "tikv-copy-tikv-0" is forbidden: exceeded quota: small, used: 0 `+
		`(the same for tidb/tikv-copy-tikv-1, tidb/tikv-copy-tikv-2)`, failure.Join(claim(0, "0"), claim(1, "0"), claim(2, "0")).Error())
	require.Contains(t, failure.Join(claim(0, "0"), claim(1, "3")).Error(), "used: 3", "another reason")
}

func TestJoin_ReasonsThatDiffer_AreAllThere(t *testing.T) {
	t.Parallel()
	lost := failure.New(failure.Unready, "create volume", "store 7", "%w", context.DeadlineExceeded)
	err := failure.Join(refused(1), nil, lost, refused(2))
	require.Equal(t, "create volume of store 1: create volume of snap-1: AccessDenied: no (request 1) (the same for store 2)\n"+
		"create volume of store 7: context deadline exceeded", err.Error())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestJoin_ManyReasons_TenAndACount(t *testing.T) {
	t.Parallel()
	var errs []error
	for n := range 14 {
		errs = append(errs, fmt.Errorf("reason %c", 'a'+n))
	}
	err := failure.Join(errs...)
	require.Contains(t, err.Error(), "reason j\nand 4 more reasons")
	require.NotContains(t, err.Error(), "reason k")
	require.ErrorIs(t, err, errs[13])
}

func TestJoin_NoneOrOne_IsThatOne(t *testing.T) {
	t.Parallel()
	require.NoError(t, failure.Join())
	require.NoError(t, failure.Join(nil, nil))
	one := errors.New("one")
	require.Equal(t, one, failure.Join(nil, one))
	require.Equal(t, "one (2 times)", failure.Join(one, one).Error())
}
