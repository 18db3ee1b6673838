package command

import (
	big "encoding/binary"

	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/tikv/client-go/v2/util/codec"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// cityOfRegions is a large cluster's regions by arithmetic: tables of many regions, three peers each on stores
// chosen at random, and logs of which some lag.
type cityOfRegions struct {
	regions, stores int
	byStore         [][]int32 // the numbers of each store's regions
}

func newCity(regions, stores int) *cityOfRegions {
	c := &cityOfRegions{regions: regions, stores: stores, byStore: make([][]int32, stores)}
	for i := range int32(regions) {
		for _, s := range c.on(int(i)) {
			c.byStore[s] = append(c.byStore[s], i)
		}
	}
	return c
}

// regionsPerTable makes the keys alike for 10 bytes and more, as those of a large table are.
const regionsPerTable = 10_000

// mix is the finalizer of splitmix64: a number at random for each number.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// on is the three stores of region number i.
func (c *cityOfRegions) on(i int) [3]int {
	r, n := mix(uint64(i)), uint64(c.stores)
	a := r % n
	b := (a + 1 + (r>>20)%(n-1)) % n
	d := (r >> 40) % (n - 2)
	for _, taken := range [2]uint64{min(a, b), max(a, b)} {
		if d >= taken {
			d++
		}
	}
	return [3]int{int(a), int(b), int(d)}
}

// key is the start of region number i: a row of a table as TiDB and TiKV encode it.
func (c *cityOfRegions) key(buf []byte, i int) []byte {
	if i == 0 || i == c.regions {
		return buf[:0]
	}
	var raw [19]byte
	raw[0] = 't'
	big.BigEndian.PutUint64(raw[1:], 1<<63|uint64(100+i/regionsPerTable))
	copy(raw[9:], "_r")
	big.BigEndian.PutUint64(raw[11:], 1<<63|uint64(i%regionsPerTable)*96_000)
	return codec.EncodeBytes(buf[:0], raw[:])
}

// each yields the region metas of store number s by region id. The next one overwrites the keys.
func (c *cityOfRegions) each(s int, f func(*tikv.RegionMeta) error) error {
	m := tikv.RegionMeta{LastLogTerm: 6}
	start, end := make([]byte, 0, 32), make([]byte, 0, 32)
	for _, n := range c.byStore[s] {
		i := int(n)
		lag := uint64(0)
		if r := mix(uint64(i)<<8 | uint64(s)); r%3 == 0 {
			lag = r >> 8 % 100
		}
		start, end = c.key(start, i), c.key(end, i+1)
		m.Region, m.PeerID, m.LastIndex = cluster.RegionID(i+1), cluster.PeerID(4*c.regions+i), 10_000-lag
		m.Version, m.Keys = uint64(60+i%7), cluster.KeyRange{Start: start, End: end}
		if err := f(&m); err != nil {
			return err
		}
	}
	return nil
}

// keyBytes is the length of all keys, each counted once.
func (c *cityOfRegions) keyBytes() float64 {
	return float64(c.regions-1) * float64(len(c.key(nil, 1)))
}

// message writes the meta as it is on the wire.
func message(m *tikv.RegionMeta, pb *recoverdata.RegionMeta) {
	pb.RegionId, pb.PeerId, pb.LastLogTerm, pb.LastIndex = uint64(m.Region), uint64(m.PeerID), m.LastLogTerm, m.LastIndex
	pb.Version, pb.StartKey, pb.EndKey = m.Version, m.Keys.Start, m.Keys.End
}
