// Package saturate converts between integer types without overflow: a value that does not fit becomes the nearest one
// that does.
package saturate

// Integer is any integer type.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// To returns n as a T, or the nearest value that a T can hold.
func To[T, F Integer](n F) T {
	t := T(n)
	if F(t) == n && (t < 0) == (n < 0) {
		return t
	}
	if n < 0 {
		return smallest[T]()
	}
	return ^smallest[T]()
}

// smallest returns the smallest value of T; its complement is the largest.
func smallest[T Integer]() T {
	var zero T
	least := ^zero
	if least > 0 {
		return zero // T is unsigned
	}
	for least<<1 < 0 {
		least <<= 1
	}
	return least
}
