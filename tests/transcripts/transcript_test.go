package transcripts

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParse_CommandsAndOutput(t *testing.T) {
	t.Parallel()
	block := "$ tisnap a \\\n    --b # why\nx\n\ny\n$ tisnap c\n"
	got := parse(block)
	assert.Equal(t, []command{
		{line: "tisnap a \\\n    --b # why", output: []string{"x", "", "y"}}, {line: "tisnap c"},
	}, got)
	assert.Equal(t, []string{"tisnap", "a", "--b"}, got[0].args())
	assert.Equal(t, block, format(got))
	assert.Nil(t, parse("make demo\n$ x\n"))
}

func TestFit_OnlyWhatDiffersBetweenRunsMayDiffer(t *testing.T) {
	t.Parallel()
	shown := []string{"run 20261122t014205-8ce7b520, took 2s", left, "end"}
	printed := []string{"run 20270101t000000-00000000, took 31ms", "more", "end", "end"}
	got, ok := fit(shown, printed)
	assert.True(t, ok)
	assert.Equal(t, []string{printed[0], left, "end"}, got)
	for _, wrong := range [][]string{
		{"run x, took 2s", "end"}, {printed[0], "end", "more"}, {printed[0]}, {"before", printed[0], "end"}, nil,
	} {
		_, ok := fit(shown, wrong)
		assert.False(t, ok, "%q", wrong)
	}
	_, ok = fit([]string{"a"}, []string{"a", "b"})
	assert.False(t, ok, "a line is missing in the page")
	got, ok = fit([]string{"a", left}, []string{"a", "b"})
	assert.True(t, ok)
	assert.Equal(t, []string{"a", left}, got)
}
