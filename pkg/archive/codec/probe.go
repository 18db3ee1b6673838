package codec

import "math"

const (
	samples    = 4
	sampleSize = 8 << 10
	flatBits   = 7.8 // from this entropy on, in bits a byte, coding literals saves less than 3 %
)

// flat reports whether the bytes of a block's samples are spread so evenly that only repeated strings could shrink it.
func flat(block []byte) bool {
	var count [256]uint32
	var total int
	for i := range samples {
		start := i * len(block) / samples
		part := block[start:min(start+sampleSize, (i+1)*len(block)/samples)]
		total += len(part)
		for _, b := range part {
			count[b]++
		}
	}
	var sum float64
	for _, n := range count {
		if n > 0 {
			sum += float64(n) * math.Log2(float64(n))
		}
	}
	return total > 0 && math.Log2(float64(total))-sum/float64(total) >= flatBits
}
