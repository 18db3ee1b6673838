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
		b.data = make([]byte, 0, room)
		preferHugePages(b.data[:room])
	}
	b.data = b.data[:0]
}
