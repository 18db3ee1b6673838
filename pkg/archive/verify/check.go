package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// bad is a block of a volume that is lost.
type bad struct {
	index int64
	pack  format.PackName
	err   error
}

// check is the work on one segment: what it has found is no longer looked at.
type check struct {
	*verifier
	part   volume.Part
	places format.Segment // of which those that are found to be bad, or are not looked at, are Absent

	mu  sync.Mutex // guards bad, places and the verifier's lost
	bad []bad
}

// segment returns the bad blocks of a segment, in ascending order.
func (v *verifier) segment(ctx context.Context, of format.Volume, part volume.Part) ([]bad, error) {
	c := &check{verifier: v, part: part, places: slices.Clone(part.Places)}
	c.objects()
	if v.options.Level != Objects {
		if err := c.headers(ctx); err != nil {
			return nil, err
		}
	}
	if v.options.Level == Data {
		if err := c.data(ctx, of); err != nil {
			return nil, err
		}
	}
	c.behind()
	slices.SortFunc(c.bad, func(a, b bad) int { return cmp.Compare(a.index, b.index) })
	return c.bad, nil
}

func (c *check) lose(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = append(c.bad, bad{c.part.First + int64(i), c.part.Places[i].Pack.Name, err})
	c.places[i] = format.Place{}
}

// share notes a block that all archives with its place have lost.
func (c *check) share(of format.Place, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verifier.lost[of] = why
}

// objects looks for the blocks' packs in the listing.
func (c *check) objects() {
	for i, place := range c.places {
		if place.State != format.Saved {
			continue
		}
		end := int64(place.Block.Offset) + int64(place.Block.Length)
		switch size, exists := c.packs.Of(place.Pack.Name); {
		case c.hidden[place.Pack.Name.Path()]: // see behind
		case !exists:
			c.lose(i, failure.New(failure.Corrupt, "find pack", place.Pack.Name.String(), "it is missing"))
		case size < end:
			c.lose(i, failure.New(failure.Corrupt, "find pack", place.Pack.Name.String(), "it ends before byte %d",
				end))
		}
	}
}

// behind are the blocks that are whole, as far as they were read, in packs that are hidden.
func (c *check) behind() {
	for i, place := range c.places {
		if place.State == format.Saved && c.hidden[place.Pack.Name.Path()] {
			c.bad = append(c.bad, bad{c.part.First + int64(i), place.Pack.Name, errHidden})
		}
	}
}

// headers compares the blocks' places with the trailers of their packs, except for those of hidden ones: what is at
// their keys is not theirs.
func (c *check) headers(ctx context.Context) error {
	of := map[format.PackRef][]int{}
	var packs []format.PackRef
	for i, place := range c.places {
		if place.State != format.Saved || c.hidden[place.Pack.Name.Path()] {
			continue
		}
		if of[place.Pack] == nil {
			packs = append(packs, place.Pack)
		}
		of[place.Pack] = append(of[place.Pack], i)
	}
	return parallel.Each(ctx, c.options.Reads, packs, func(ctx context.Context, _ int, ref format.PackRef) error {
		size, _ := c.packs.Of(ref.Name)
		contents, err := c.repository.Contents(ctx, ref.Name, size)
		if err != nil && !Damaged(err) {
			return err
		}
		if err == nil && contents.Ref != ref {
			err = failure.New(failure.Corrupt, "read pack", ref.Name.String(), "it is of key generation %d, not %d",
				contents.Ref.Generation, ref.Generation)
		}
		has := map[format.Block]bool{}
		for _, b := range contents.Blocks {
			has[b.Block] = true
		}
		for _, i := range of[ref] {
			why := err
			if why == nil && !has[c.part.Places[i].Block] {
				why = failure.New(failure.Corrupt, "read pack", ref.Name.String(), "its trailer does not list block %d",
					c.part.First+int64(i))
			}
			if why != nil {
				c.lose(i, why)
			}
		}
		return nil
	})
}

// data reads blocks, or a sample of them, and compares each with its digest.
func (c *check) data(ctx context.Context, of format.Volume) error {
	read := slices.Clone(c.places)
	for i := range read {
		if read[i].State != format.Saved {
			continue
		}
		if rand.Float64() >= c.options.Sample {
			read[i] = format.Place{}
			continue
		}
		c.result.Blocks++
	}
	return c.repository.ReadBlocks(ctx, read, c.options.Reads,
		func(_ context.Context, i int, block []byte, lost error) error {
			want := min(volume.BlockSize, of.Size-(c.part.First+int64(i))*volume.BlockSize)
			if lost == nil && sha256.Sum256(block) != read[i].Block.Digest {
				lost = failure.New(failure.Corrupt, "read block", "", "its content is not that of its digest")
			}
			switch {
			case lost != nil:
				c.lose(i, lost)
				c.share(read[i], lost)
			case int64(len(block)) != want: // in this volume
				c.lose(i, failure.New(failure.Corrupt, "read block", "", "it has %d bytes, not %d", len(block), want))
			}
			return nil
		})
}
