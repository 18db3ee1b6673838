package failure_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestList_ManyItems_ShowsTenAndACount(t *testing.T) {
	t.Parallel()
	require.Empty(t, failure.List(nil))
	require.Equal(t, "a, b", failure.List([]string{"a", "b"}))
	require.Equal(t, strings.Repeat("a, ", 10)+"and 2 more", failure.List(strings.Split(strings.Repeat("a", 12), "")))
}
