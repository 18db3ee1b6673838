package prune

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
)

// shares are the packs in use, by the share of them that no archive refers to, in hundredths.
type shares struct {
	bytes, unused int64
	of            [101]struct{ packs, bytes, unused int64 }
}

func share(size, unused int64) int64 { return unused * 100 / max(size, 1) }

func (s *shares) add(size, unused int64) {
	s.bytes += size
	s.unused += unused
	of := &s.of[share(size, unused)]
	of.packs++
	of.bytes += size
	of.unused += unused
}

// plan is which packs are rewritten: all that are unused to a larger share, and of those with this one as many as free
// so many bytes.
type plan struct {
	share int64
	bytes int64
}

// choose takes the packs that are unused most, until only maxUnused of what remains is unused. It fills in what
// rewriting them takes.
func (s *shares) choose(maxUnused float64, r *Rewriting) (p plan) {
	if maxUnused >= 1 {
		return p
	}
	need := int64((float64(s.unused) - maxUnused*float64(s.bytes)) / (1 - maxUnused))
	for p.share = 100; p.share > 0 && need > 0; p.share-- {
		of := &s.of[p.share]
		if of.packs == 0 {
			continue
		}
		packs := of.packs
		if of.unused > need {
			packs = (need*of.packs + of.unused - 1) / of.unused
		}
		p.bytes = min(need, of.unused)
		need -= of.unused
		r.Packs += packs
		r.FreedBytes += of.unused * packs / of.packs
		r.ReadBytes += (of.bytes - of.unused) * packs / of.packs
	}
	p.share++
	r.WrittenBytes = r.ReadBytes
	return p
}

// markChosen chooses the packs of a plan, by the list of packs.
func (p *pruner) markChosen(ctx context.Context, by plan) (packs int64, err error) {
	left := by.bytes
	err = p.eachPart(ctx, []string{format.PackPrefix}, func(_ context.Context, objects []repository.Stored) error {
		for _, o := range objects {
			name, err := format.ParsePackPath(o.Key)
			if err != nil || !p.refers(o.Key) {
				continue
			}
			unused := p.unused(name, o.Size)
			is := share(o.Size, unused)
			if is < by.share || is == by.share && left <= 0 {
				continue
			}
			if is == by.share {
				left -= unused
			}
			p.packs[short(name)] |= chosen
			packs++
		}
		return nil
	})
	return packs, err
}
