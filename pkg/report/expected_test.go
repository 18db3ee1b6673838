package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/reporttest"
)

// Markdown has what the page has: expected beside actual with both shares, the published form, warnings, and the attempts
// whose snapshots were thrown away.
func TestMarkdown_ExpectedPublishedWarningsAndAttempts(t *testing.T) {
	t.Parallel()
	full := report.TableOptions{Compare: true, Details: true}
	for name, row := range map[string]struct {
		report *report.Report
		want   []string
	}{
		"backup": {reporttest.Backup(3), []string{
			"| phase | expected | range | share | actual | share | difference |",
			"| volume snapshots | 14m50s | 11m40s - 18m20s | 98.9% | 14m16.4s | 99.3% | -4% |", "| pause scheduling | <1s | <1s | <0.1% | 250ms | <0.1% | - |",
			"| total | 15m00s | 11m40s - 20m00s | 100% | 14m22.5s | 100% | -4% |", "published: about 350 min for 954 GiB per volume",
		}},
		"restore": {reporttest.Restore(3), []string{
			"| this run | 2.7 TiB | 931 GiB | 3 | 53s | 6.4s | 2m55.2s | 8m32.9s | 58s | 13m26s |", "| published | 19 TiB | 931 GiB | 20 | 1m00s | 6s | 3m10s | 13m06s | 1m00s | 18m16s |",
			"- warning: the peers of 2 regions disagreed about their range",
		}},
		"three attempts": {reporttest.Failed(), []string{
			"- attempt 2 failed at 10:00:34Z in cut: snapshot volumes store 4", "- attempt 3 failed at 10:01:00Z in cut",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			require.NoError(t, row.report.Markdown(&b, full))
			for _, want := range row.want {
				require.Contains(t, b.String(), want)
			}
		})
	}
}

// Every report shows how far off the estimate was; the phases of the estimate are for who asks for details.
func TestTable_ExpectedTotal_IsAlwaysThere(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		seconds float64
		want    string
	}{
		"longer": {990, "took 10% more than expected"}, "shorter": {720, "took 20% less than expected"},
		"within half a percent": {903, "took as long as expected"}, "rounded": {997, "took 11% more than expected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := reporttest.Backup(3)
			r.TotalSeconds = row.seconds
			for what, write := range map[string]func(*bytes.Buffer) error{
				"table":    func(b *bytes.Buffer) error { return r.Table(b, report.TableOptions{}) },
				"Markdown": func(b *bytes.Buffer) error { return r.Markdown(b, report.TableOptions{}) },
			} {
				var b bytes.Buffer
				require.NoError(t, write(&b), what)
				require.Equal(t, 1, strings.Count(b.String(), "expected: 15m00s (11m40s to 20m00s), by "), b.String())
				require.Contains(t, b.String(), row.want, what)
				require.NotContains(t, b.String(), "difference", what)
			}
		})
	}
}

// A model of AWS does not apply to a run on the testbed.
func TestExpected_NotAWS_IsNotCompared(t *testing.T) {
	t.Parallel()
	r := reporttest.Backup(3)
	r.Expected.NotAWS = true
	var table bytes.Buffer
	require.NoError(t, r.Markdown(&table, report.TableOptions{Compare: true, Details: true}))
	require.Contains(t, table.String(), "by 12 runs of this storage, a model of AWS: not comparable here\n")
	require.Contains(t, table.String(), "| 14m22.5s | 100% | - |")
}

func TestRoughly(t *testing.T) {
	t.Parallel()
	for want, seconds := range map[string]float64{"0s": 0, "<1s": 0.2, "1s": 0.6, "18m22s": 1102.4, "1h00m": 3599.6, "2h50m": 10199} {
		require.Equal(t, want, report.Roughly(seconds))
	}
}

// How long a run took to fail does not test the estimate.
func TestTable_FailedRun_HasNoExpectedTotal(t *testing.T) {
	t.Parallel()
	r := reporttest.Backup(3)
	r.Outcome = phase.Failed
	var b bytes.Buffer
	require.NoError(t, r.Table(&b, report.TableOptions{}))
	require.NotContains(t, b.String(), "expected: ")
}

// Less than a second is no difference, whatever its share of what was expected.
func TestDifferenceAndVerdict(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		low, want, high, got float64
		difference, verdict  string
	}{
		{0.1, 0.1, 0.1, 0.25, "-", "as expected"},
		{0.1, 0.1, 0.1, 2, "×20", "slower"},
		{10, 12, 14, 12.9, "-", "as expected"},
		{10, 12, 14, 14.5, "+21%", "as expected"},
		{10, 12, 14, 15, "+25%", "slower"},
		{10, 12, 14, 8, "-33%", "faster"},
		{800, 1000, 1200, 1002, "0%", "as expected"},
		{0, 0, 0, 5, "-", "slower"},
	} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.difference, report.Difference(row.want, row.got))
			require.Equal(t, row.verdict, report.Comparison(row.low, row.high, row.got))
		})
	}
}
