package ebs

import "github.com/tisnap/tisnap/pkg/saturate"

// number is a number of a request: nil for zero, which leaves it to EC2. One that does not fit is the largest, which
// EC2 refuses by its own rules.
func number(n int64) *int32 {
	if n == 0 {
		return nil
	}
	fits := saturate.To[int32](n)
	return &fits
}
