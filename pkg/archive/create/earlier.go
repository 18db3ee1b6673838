package create

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// packs is the data of journal.IntentPacks: the names of the packs that a process is going to write.
type packs struct {
	Names   format.PackNames `json:"names"`
	Pending int              `json:"pending"` // the most that are begun and not stored
}

// segment is the data of journal.ResultSegment: all packs with its blocks are stored.
type segment struct {
	Volume int                `json:"volume"` // its number in the manifest
	Name   format.SegmentName `json:"name"`
	Stats  volume.Stats       `json:"stats"`
	// From is the number of the process's first pack that may have blocks of later segments.
	From int `json:"from"`
	// Spent is what the process has spent so far.
	Spent Spent `json:"spent"`
}

// earlier is what the run's earlier processes did.
type earlier struct {
	processes []process
	segments  map[int][]format.SegmentName // by volume, from its first one on
	stats     map[int]volume.Stats         // of these
}

type process struct {
	packs
	from  int
	spent Spent
}

func newEarlier() earlier {
	return earlier{segments: map[int][]format.SegmentName{}, stats: map[int]volume.Stats{}}
}

// learn reads the journal.
func (e *earlier) learn(h *phase.History, _ *journal.About) error {
	*e = newEarlier()
	for _, of := range journal.ReadFacts(h.Records).Archive {
		var p process
		err := json.Unmarshal(of.Packs, &p.packs)
		for _, data := range of.Segments {
			var s segment
			err = errors.Join(err, json.Unmarshal(data, &s))
			e.segments[s.Volume] = append(e.segments[s.Volume], s.Name)
			stats := e.stats[s.Volume]
			stats.Add(s.Stats)
			e.stats[s.Volume] = stats
			p.from, p.spent = s.From, s.Spent
		}
		if err != nil {
			return failure.Wrap(err, failure.Corrupt, "read journal", string(h.Records[0].Run))
		}
		e.processes = append(e.processes, p)
	}
	return nil
}

// spent is what all earlier processes are known to have spent.
func (e *earlier) spent() (sum Spent) {
	for _, p := range e.processes {
		sum.add(p.spent)
	}
	return sum
}

// done is how many blocks the earlier processes dealt with for good.
func (e *earlier) done() (sum int64) {
	for _, stats := range e.stats {
		sum += stats.Read
	}
	return sum
}

// places are the blocks that earlier processes packed, by volume and index, of segments that are not done.
type places map[int]map[int64]format.Place

// find looks for the packs of the earlier processes.
func (e *earlier) find(ctx context.Context, r *repository.Repository) (places, error) {
	out := places{}
	for _, p := range e.processes {
		err := r.FindPacks(ctx, p.Names, p.from, p.Pending, func(c format.Contents) error {
			for _, b := range c.Blocks {
				v, index := int(b.Volume), int64(b.Index)
				if index < int64(len(e.segments[v]))*format.SegmentBlocks {
					continue
				}
				if out[v] == nil {
					out[v] = map[int64]format.Place{}
				}
				out[v][index] = format.Place{State: format.Saved, Pack: c.Ref, Block: b.Block}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// in returns where a volume's block is.
func (p places) in(v int) func(int64) (format.Place, bool) {
	return func(index int64) (format.Place, bool) {
		place, ok := p[v][index]
		return place, ok
	}
}
