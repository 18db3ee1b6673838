package repository

// buffer is a pack in memory. What is appended to its AvailableBuffer, and then written, is not copied.
type buffer struct{ data []byte }

// AvailableBuffer is the room behind what was written.
func (b *buffer) AvailableBuffer() []byte { return b.data[len(b.data):] }

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	n := len(b.data)
	if whole := n + len(p); len(p) > 0 && whole <= cap(b.data) && &p[0] == &b.data[:whole][n] {
		b.data = b.data[:whole]
		return len(p), nil
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// reset empties it, and makes room for so many bytes.
func (b *buffer) reset(room int) {
	if cap(b.data) < room {
		b.data = Room(room)[:0]
	}
	b.data = b.data[:0]
}

// hugePage is the size of a huge page on the usual processors.
const hugePage = 2 << 20

// Room allocates so many bytes, in huge pages where the system has them: they take one fault each to fill, and one
// look-up to read or write past the page cache, for 512 of the usual pages.
func Room(size int) []byte {
	room := make([]byte, size)
	if size >= hugePage {
		preferHugePages(room)
	}
	return room
}
