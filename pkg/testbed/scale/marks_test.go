package scale

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizes_OfAMillionMarks_AreWithinTheirLimits(t *testing.T) {
	var s Sizes // not parallel: it counts the bytes of this process
	require.NoError(t, s.measure())
	require.LessOrEqual(t, s.StoredBytes, s.StoredLimit)
	require.LessOrEqual(t, s.MemoryEach, s.MemoryLimit)
	require.Greater(t, s.MemoryEach, 30.0, "a mark is four numbers of 8 bytes")
}

func TestMarks_Judge_NamesWhatIsNotKept(t *testing.T) {
	t.Parallel()
	good := func() *Marks {
		return &Marks{
			Reading: Reading{Regions: 10, Marks: 10, Seconds: 6, Limit: 10, Open: 64, MostOpen: 64},
			Holds:   Compared{Ratio: 1, Limit: maxHoldRatio, Read: 30},
			Million: Sizes{StoredBytes: 7, StoredLimit: 12, MemoryEach: 32, MemoryLimit: 40},
		}
	}
	for name, change := range map[string]func(*Marks){
		"have a mark":                  func(m *Marks) { m.Reading.Marks = 9 },
		"marks were read in":           func(m *Marks) { m.Reading.Seconds = 11 },
		"calls were open":              func(m *Marks) { m.Reading.Open = 65 },
		"times as long with marks":     func(m *Marks) { m.Holds.Ratio = 1.2 },
		"while the cluster was held":   func(m *Marks) { m.Holds.WhileHeld = 1 },
		"bytes in storage":             func(m *Marks) { m.Million.StoredBytes = 13 },
		"bytes a region in memory":     func(m *Marks) { m.Million.MemoryEach = 41 },
		"0 of 0 raft states were read": func(m *Marks) { m.Holds.Read = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := good()
			m.checkLimits()
			require.Empty(t, m.Exceeded)
			change(m)
			m.checkLimits()
			require.Len(t, m.Exceeded, 1)
			require.Contains(t, m.Exceeded[0], name)
		})
	}
}
