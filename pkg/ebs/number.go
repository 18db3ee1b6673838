package ebs

import "math"

// number is a number of a request: nil for zero, which leaves it to EC2. One that does not fit is the largest, which
// EC2 refuses by its own rules.
func number(n int64) *int32 {
	if n == 0 {
		return nil
	}
	fits := int32(max(math.MinInt32, min(n, math.MaxInt32))) //nolint:gosec // it is bounded here
	return &fits
}
