package saturate_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tisnap/tisnap/pkg/saturate"
)

func TestTo_ValueThatFits_IsKept(t *testing.T) {
	t.Parallel()
	assert.Equal(t, uint16(65535), saturate.To[uint16](65535))
	assert.Equal(t, int32(math.MinInt32), saturate.To[int32](int64(math.MinInt32)))
	assert.Equal(t, uint64(7), saturate.To[uint64](7))
	assert.Equal(t, int64(math.MaxInt64), saturate.To[int64](uint64(math.MaxInt64)))
}

func TestTo_ValueThatDoesNotFit_IsTheNearest(t *testing.T) {
	t.Parallel()
	assert.Equal(t, uint16(65535), saturate.To[uint16](65536))
	assert.Equal(t, uint32(0), saturate.To[uint32](-1))
	assert.Equal(t, uint64(0), saturate.To[uint64](int8(-1)))
	assert.Equal(t, int32(math.MaxInt32), saturate.To[int32](int64(math.MaxInt32)+1))
	assert.Equal(t, int32(math.MinInt32), saturate.To[int32](int64(math.MinInt64)))
	assert.Equal(t, int64(math.MaxInt64), saturate.To[int64](uint64(math.MaxUint64)))
	assert.Equal(t, int8(math.MaxInt8), saturate.To[int8](uint8(200)))
}
