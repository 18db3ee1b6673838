package crash

import (
	"fmt"
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
		"the same, at another time":               {`{"volumes": 6, "started": "11:00", "warnings": ["a"], "phases": [{"name": "wait", "seconds": 2, "outcome": "done"}]}`, ""},
		"a phase that was done before":            {`{"volumes": 6, "warnings": ["a"], "phases": [{"name": "wait", "outcome": "resumed"}]}`, ""},
		"a phase that failed":                     {`{"volumes": 6, "warnings": ["a"], "phases": [{"name": "wait", "outcome": "failed"}]}`, `report.phases.wait.outcome is "failed", and "done"`},
		"a volume less":                           {`{"volumes": 5, "warnings": ["a"], "phases": [{"name": "wait", "outcome": "done"}]}`, `report.volumes is "5", and "6"`},
		"a warning more":                          {`{"volumes": 6, "warnings": ["a", "b"], "phases": [{"name": "wait", "outcome": "done"}]}`, `report.warnings.1 is "b", and ""`},
		"no phase":                                {`{"volumes": 6, "warnings": ["a"], "phases": []}`, `report.phases.wait.name is "", and "wait"`},
		"something that no other makes":           {`{"volumes": 6, "new": "", "warnings": ["a"], "phases": [{"name": "wait", "outcome": "done"}]}`, `report.new is ""`},
		"what a resumed run reports about itself": {`{"volumes": 6, "wallSeconds": 9, "processes": [{"step": "wait"}], "warnings": ["a"], "phases": [{"name": "wait", "outcome": "done"}]}`, ""},
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

	// Rows that have nothing but the store's id are in the order of the ids.
	one, other = resultOf(t, `{"stores": [{"store": 1, "x": "a"}, {"store": 4, "x": "b"}]}`), resultOf(t, `{"stores": [{"store": 1, "x": "b"}, {"store": 4, "x": "a"}]}`)
	one.nameStores(map[string]string{"1": "tikv-0", "4": "tikv-1"})
	require.Error(t, one.equal(other))
	other.nameStores(map[string]string{"1": "tikv-1", "4": "tikv-0"})
	require.NoError(t, one.equal(other))
	swapped := resultOf(t, `{"stores": [{"store": 1, "x": "a"}, {"store": 4, "x": "b"}]}`)
	swapped.nameStores(map[string]string{"1": "tikv-1", "4": "tikv-0"})
	require.Error(t, swapped.equal(other))
}

// What cannot be the same number is checked by what it means, and only a step that was done again may lack a part.
func TestResult_CountsAndParts_AreComparedByTheirMeaning(t *testing.T) {
	t.Parallel()
	const report = `{"regions": {"total": 6, "unchanged": %s, "flashed": %s}, "phases": [{"name": "wait", "steps": [{"name": "collect", "outcome": %q, "parts": [%s]}]}],
		"stores": [{"pod": "tikv-0", "parts": [%s]}]}`
	const read, pause, collect = `{"name": "read", "seconds": 1}`, `{"name": "pause", "seconds": 1}`, `{"name": "collect", "seconds": 1}`
	undisturbed := resultOf(t, fmt.Sprintf(report, "4", "2", "done", read, collect))
	for name, row := range map[string]struct{ made, want string }{
		"fewer regions are unchanged":         {fmt.Sprintf(report, "0", "6", "done", read, collect), ""},
		"a region is lost":                    {fmt.Sprintf(report, "3", "2", "done", read, collect), "report.regions.addsUp"},
		"no regions":                          {`{"phases": [], "stores": []}`, "report.regions.total"},
		"done before, with its parts":         {fmt.Sprintf(report, "4", "2", "resumed", read, collect), ""},
		"done before, its part is lost":       {fmt.Sprintf(report, "4", "2", "resumed", "", collect), "report.phases.wait.steps.collect.parts.read.name"},
		"done before, its store's is lost":    {fmt.Sprintf(report, "4", "2", "resumed", read, ""), "report.stores.tikv-0.parts.collect.name"},
		"done again, it took no time":         {fmt.Sprintf(report, "4", "2", "done", "", ""), ""},
		"done again, with another part":       {fmt.Sprintf(report, "4", "2", "done", pause, collect), "report.phases.wait.steps.collect.parts.pause.name"},
		"done again, with a part of no store": {fmt.Sprintf(report, "4", "2", "done", read, pause), "report.stores.tikv-0.parts.pause.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := resultOf(t, row.made).equal(undisturbed)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
}

// A backup that was killed after its cut has marks all the same.
func TestResult_MarksAreLost_IsADifference(t *testing.T) {
	t.Parallel()
	marked := func(text string) result {
		value, err := decode(text)
		require.NoError(t, err)
		r := result{}
		r.add("manifest", value)
		return r
	}
	undisturbed := marked(`{"marks": {"sha256": "aa", "size": 80, "regions": 6, "ts": "1"}}`)
	require.NoError(t, marked(`{"marks": {"sha256": "bb", "size": 70, "regions": 5, "ts": "2"}}`).equal(undisturbed))
	require.ErrorContains(t, marked(`{"marks": {"sha256": "bb", "size": 20, "regions": 0, "ts": "2"}}`).equal(undisturbed), "manifest.marks.regions")
	require.ErrorContains(t, marked(`{}`).equal(undisturbed), "manifest.marks.sha256")
}
