package disk

import (
	"maps"
	"slices"
)

// Allocated lists, ascending, the blocks of size bytes that have data in them; size is a multiple of PageSize.
func (i *Image) Allocated(size int64) []int64 {
	return blocks(size, func(add func(page int64)) {
		for index := range i.pages {
			add(index)
		}
	})
}

// Changed lists, ascending, the blocks of size bytes that were written or discarded between the older image and i, of
// one device or of a device that was made from the older image. What was written is changed, even if it is the same.
func (i *Image) Changed(older *Image, size int64) []int64 {
	return blocks(size, func(add func(page int64)) {
		for index, pg := range i.pages {
			if older.pages[index] != pg {
				add(index)
			}
		}
		for index := range older.pages {
			if i.pages[index] == nil {
				add(index)
			}
		}
	})
}

func blocks(size int64, each func(add func(page int64))) []int64 {
	found := map[int64]struct{}{}
	each(func(page int64) { found[page*PageSize/size] = struct{}{} })
	return slices.Sorted(maps.Keys(found))
}
