package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
)

// counterExample is a restored region that is not what it was at its mark, and that one condition alone refuses. Where
// raft itself keeps the others from being met, its promise was broken: volumes were put back from older snapshots.
type counterExample struct {
	name  string
	peers [3]replica      // on stores 1, 2 and 3
	voter cluster.StoreID // another replica that may come to lead; 0 is the planned one
	mark  marks.Mark
	// without is the check with the condition left out.
	without func(marks.Mark, marks.Log) bool
	locks   bool // the scan for a lock is left out, too
}

const (
	backupTS = 1000
	region   = cluster.RegionID(7)
)

// entries is a log of so many empty entries of a term.
func entries(n int, term uint64) []entry {
	log := make([]entry, n)
	for i := range log {
		log[i].term = term
	}
	return log
}

// late is an entry whose row is above the backup ts.
func late(term uint64) entry {
	return entry{term: term, write: write{kind: writeKey, key: 1, start: backupTS + 1, commit: backupTS + 2}}
}

func onThree(r replica) [3]replica { return [3]replica{r, r, r} }

// counterExamples has one of each condition. The mark is of region 7 at version 2, term 6, index 5.
func counterExamples() []counterExample {
	as := func(change func(*marks.Mark, *marks.Log)) func(marks.Mark, marks.Log) bool {
		return func(m marks.Mark, l marks.Log) bool {
			change(&m, &l)
			return m.Unchanged(l)
		}
	}
	at := func(vote uint64, version uint64, log ...entry) replica {
		return replica{vote: vote, version: version, log: log, applied: len(log), peer: 9}
	}
	mark := marks.Mark{Region: region, Version: 2, Term: 6, Index: 5}
	same := append(entries(4, 5), entry{term: 6})
	newer := append(entries(4, 5), late(6))
	other := mark
	other.Region = region + 1
	locked := append(entries(4, 5), entry{term: 6, write: write{kind: lockKey, key: 1, start: backupTS - 1}})
	return []counterExample{
		{
			name: "id: the mark of a neighbour whose log is as long", peers: onThree(at(6, 2, newer...)), mark: other,
			without: as(func(m *marks.Mark, l *marks.Log) { l.Region = m.Region }),
		},
		{
			name: "version: volumes were put back, and the region was split and written to since", peers: onThree(at(6, 3, newer...)), mark: mark,
			without: as(func(m *marks.Mark, l *marks.Log) { m.Version = l.Version }),
		},
		{
			name: "even: two volumes were put back, and their peers have split since", mark: mark, voter: 2,
			peers:   [3]replica{at(6, 2, same...), at(6, 1, newer...), at(6, 1, newer...)},
			without: as(func(_ *marks.Mark, l *marks.Log) { l.Even = true }),
		},
		{
			name: "last index: a write after the mark", peers: onThree(at(6, 2, append(same, late(6))...)), mark: mark,
			without: as(func(m *marks.Mark, l *marks.Log) { l.Longest, l.Index = m.Index, m.Index }),
		},
		{
			name: "term: volumes were put back, and a later leader wrote another last entry", mark: mark,
			peers:   onThree(at(7, 2, append(entries(4, 5), late(7))...)),
			without: as(func(m *marks.Mark, l *marks.Log) { l.Term = m.Term }),
		},
		{
			name: "planned leader: volumes were put back, and a leader of an earlier term wrote to the shorter log", mark: mark,
			peers:   onThree(at(6, 2, append(entries(3, 5), late(6))...)),
			without: as(func(m *marks.Mark, l *marks.Log) { l.Index = m.Index }),
		},
		{
			name: "lock: a transaction whose primary is in another region, and is flashed back there", mark: mark,
			peers: onThree(at(6, 2, locked...)), without: marks.Mark.Unchanged, locks: true,
		},
	}
}

// TestUnchanged_EachConditionLeftOut_HasACounterExample shows of each condition a region that is found unchanged without
// it, and that a flashback would change or whose lock it would take away; with all of them it is not.
func TestUnchanged_EachConditionLeftOut_HasACounterExample(t *testing.T) {
	t.Parallel()
	for _, c := range counterExamples() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			images := map[cluster.StoreID]image{}
			for i := range c.peers {
				images[cluster.StoreID(i+1)] = image{region: &c.peers[i]}
			}
			made, err := makePlan(t, reported(images, true), 3)
			require.NoError(t, err)
			require.Len(t, made.Leaders, 1)
			for _, log := range made.Logs() {
				require.True(t, c.without(c.mark, log), "another condition refuses it, too: %+v", log)
				leads := made.Leaders[0].Store
				if c.voter != 0 {
					leads = c.voter
				}
				now := (&world{}).rowsOf(&group{}, images[leads][region].log)[1]
				if c.locks {
					require.NotZero(t, now.lock)
					require.LessOrEqual(t, now.commit, uint64(backupTS))
					continue
				}
				require.Greater(t, now.commit, uint64(backupTS), "a flashback would change nothing")
				require.False(t, c.mark.Unchanged(log))
			}
		})
	}
}
