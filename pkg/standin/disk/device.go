// Package disk is the block device behind the stand-ins' EBS volumes: sparse, copy-on-write, with a cut of
// several devices at one instant.
//
// What is written is on the device at once; what a process has only buffered is not, and is lost by a
// snapshot, as it is on EBS. A write larger than a page may be cut in its middle, so readers of a restored
// device must expect a torn tail.
package disk

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// PageSize is the unit of copying and the largest write that a cut never tears.
const PageSize = 64 << 10

// ErrDetached is returned by reads and writes of a device that was detached.
var ErrDetached = errors.New("device is detached")

// page is immutable once another device shares it.
type page struct {
	data   []byte
	shared bool
}

// sequence numbers devices, so that Cut always locks them in the same order.
var sequence atomic.Int64

// Device is a block device. It is safe for concurrent use.
type Device struct {
	number   int64
	mu       sync.Mutex
	pages    map[int64]*page
	size     int64
	dirty    map[int64]struct{} // pages written since the last cut
	detached bool
}

// New makes an empty device of size bytes.
func New(size int64) *Device {
	return &Device{number: sequence.Add(1), pages: map[int64]*page{}, dirty: map[int64]struct{}{}, size: size}
}

// Size is the capacity in bytes.
func (d *Device) Size() int64 { return d.size }

// ReadAt fills p from off; bytes never written are zero. Reading past the end is an error.
func (d *Device) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > d.size {
		return 0, errors.New("read outside the device")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.detached {
		return 0, ErrDetached
	}
	for n := 0; n < len(p); {
		at := off + int64(n)
		in := int(at % PageSize)
		end := min(len(p)-n, PageSize-in)
		if pg := d.pages[at/PageSize]; pg != nil {
			copy(p[n:n+end], pg.data[in:])
		} else {
			clear(p[n : n+end])
		}
		n += end
	}
	return len(p), nil
}

// WriteAt writes p at off, page by page: a cut may see some pages and not others.
func (d *Device) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > d.size {
		return 0, errors.New("write outside the device: it is full")
	}
	for n := 0; n < len(p); {
		at := off + int64(n)
		in := int(at % PageSize)
		end := min(len(p)-n, PageSize-in)
		if err := d.writePage(at/PageSize, in, p[n:n+end]); err != nil {
			return n, err
		}
		n += end
	}
	return len(p), nil
}

func (d *Device) writePage(index int64, in int, p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.detached {
		return ErrDetached
	}
	pg := d.pages[index]
	switch {
	case pg == nil:
		pg = &page{data: make([]byte, PageSize)}
		d.pages[index] = pg
	case pg.shared:
		pg = &page{data: append([]byte(nil), pg.data...)}
		d.pages[index] = pg
	}
	copy(pg.data[in:], p)
	d.dirty[index] = struct{}{}
	return nil
}

// Discard gives back the whole pages within [off, off+length); they read as zeros afterwards.
func (d *Device) Discard(off, length int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for index := (off + PageSize - 1) / PageSize; (index+1)*PageSize <= off+length; index++ {
		delete(d.pages, index)
	}
}

// Detach makes every later read and write fail, as for a process whose volume went away.
func (d *Device) Detach() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.detached = true
}

// Attach undoes Detach.
func (d *Device) Attach() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.detached = false
}

// Used is the number of bytes in pages that were ever written and not discarded.
func (d *Device) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.pages)) * PageSize
}

// Image is the content of a device at one instant. It never changes.
type Image struct {
	pages map[int64]*page
	size  int64
	// DirtyBytes is what was written since the cut before: what an incremental snapshot has to copy.
	DirtyBytes int64
	// UsedBytes is the data in the image.
	UsedBytes int64
}

// Size is the capacity of the device that the image was taken of.
func (i *Image) Size() int64 { return i.size }

// Cut takes images of all devices at the same instant: no write to any of them lies between two images.
func Cut(devices ...*Device) []*Image {
	order := slices.Clone(devices)
	slices.SortFunc(order, func(a, b *Device) int { return cmp.Compare(a.number, b.number) })
	order = slices.Compact(order)
	for _, d := range order {
		d.mu.Lock()
	}
	taken := make(map[*Device]*Image, len(order))
	for _, d := range order {
		taken[d] = d.image()
		d.mu.Unlock()
	}
	images := make([]*Image, len(devices))
	for i, d := range devices {
		images[i] = taken[d]
	}
	return images
}

func (d *Device) image() *Image {
	pages := make(map[int64]*page, len(d.pages))
	for index, pg := range d.pages {
		pg.shared = true
		pages[index] = pg
	}
	img := &Image{
		pages: pages, size: d.size,
		DirtyBytes: int64(len(d.dirty)) * PageSize,
		UsedBytes:  int64(len(pages)) * PageSize,
	}
	d.dirty = map[int64]struct{}{}
	return img
}

// FromImage makes a device of size bytes that starts with the image's content; size must not be smaller
// than the image's.
func FromImage(i *Image, size int64) (*Device, error) {
	if size < i.size {
		return nil, errors.New("device is smaller than the image")
	}
	d := New(size)
	for index, pg := range i.pages {
		d.pages[index] = pg // shared was set when the image was taken, so writes copy
	}
	return d, nil
}

// ReadAt fills p from off; bytes never written are zero.
func (i *Image) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > i.size {
		return 0, errors.New("read outside the image")
	}
	for n := 0; n < len(p); {
		at := off + int64(n)
		in := int(at % PageSize)
		end := min(len(p)-n, PageSize-in)
		if pg := i.pages[at/PageSize]; pg != nil {
			copy(p[n:n+end], pg.data[in:])
		} else {
			clear(p[n : n+end])
		}
		n += end
	}
	return len(p), nil
}
