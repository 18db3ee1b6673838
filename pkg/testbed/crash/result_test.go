package crash

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func resultOf(t *testing.T, text string) result {
	t.Helper()
	value, err := decode(text)
	require.NoError(t, err)
	r := result{}
	r.add("report", value)
	return r
}

// What a run makes is compared value by value; only what two runs never have in common may differ.
func TestResult_ComparedWithAnUndisturbedRun(t *testing.T) {
	t.Parallel()
	const undisturbed = `{"volumes": 6, "started": "10:00", "warnings": ["a"], "phases": [{"name": "wait", "seconds": 1, "outcome": "done"}]}`
	for name, row := range map[string]struct{ made, want string }{
		"the same, at another time":         {`{"volumes": 6, "started": "11:00", "warnings": ["a"], "phases": [{"name": "wait", "seconds": 2, "outcome": "done"}]}`, ""},
		"a phase that was done before":      {`{"volumes": 6, "warnings": ["a"], "phases": [{"name": "wait", "outcome": "resumed"}]}`, ""},
		"a phase that failed":               {`{"volumes": 6, "warnings": ["a"], "phases": [{"name": "wait", "outcome": "failed"}]}`, `report.phases.wait.outcome is "failed", and "done"`},
		"a volume less":                     {`{"volumes": 5, "warnings": ["a"], "phases": [{"name": "wait", "outcome": "done"}]}`, `report.volumes is "5", and "6"`},
		"a warning more":                    {`{"volumes": 6, "warnings": ["a", "b"], "phases": [{"name": "wait", "outcome": "done"}]}`, `report.warnings.1 is "b", and ""`},
		"no phase at all":                   {`{"volumes": 6, "warnings": ["a"], "phases": []}`, `report.phases.wait.name is "", and "wait"`},
		"something that nobody else makes":  {`{"volumes": 6, "new": "", "warnings": ["a"], "phases": [{"name": "wait", "outcome": "done"}]}`, `report.new is ""`},
		"what a resumed run says of itself": {`{"volumes": 6, "wallSeconds": 9, "processes": [{"step": "wait"}], "warnings": ["a"], "phases": [{"name": "wait", "outcome": "done"}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := resultOf(t, row.made).equal(resultOf(t, undisturbed))
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
}

// Stores get their ids in the order in which they come: they are known by their pods.
func TestResult_StoresAreNamedByTheirPods(t *testing.T) {
	t.Parallel()
	one, other := resultOf(t, `{"snapshots": [{"volume": "a", "store": 1}]}`), resultOf(t, `{"snapshots": [{"volume": "a", "store": 4}]}`)
	require.Error(t, one.equal(other))
	one.nameStores(map[string]string{"1": "tikv-0"})
	other.nameStores(map[string]string{"4": "tikv-0"})
	require.NoError(t, one.equal(other))
}
