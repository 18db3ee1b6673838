package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestEarlyApplyRuledOut_OnlyByWhatTheBackupProved(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		early *manifest.EarlyApply
		want  bool
	}{
		{"of an older version or of br", nil, false},
		{"without a state", &manifest.EarlyApply{}, false},
		{"a state of a later version", &manifest.EarlyApply{State: "partly"}, false},
		{"unproven", &manifest.EarlyApply{State: manifest.EarlyApplyUnproven}, false},
		{"excluded", &manifest.EarlyApply{State: manifest.EarlyApplyExcluded}, true},
		{"not applicable", &manifest.EarlyApply{State: manifest.EarlyApplyNotApplicable}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, (&manifest.Manifest{EarlyApply: tc.early}).EarlyApplyRuledOut())
		})
	}
}
