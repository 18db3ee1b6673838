package command

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// heapPeak watches how much the heap holds, garbage included.
type heapPeak struct {
	base, peak uint64
	stop       chan struct{}
	done       sync.WaitGroup
}

// watchHeap collects the garbage and starts to sample the heap each millisecond.
func watchHeap() *heapPeak {
	runtime.GC()
	h := &heapPeak{stop: make(chan struct{})}
	h.base = heapObjects()
	h.done.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-h.stop:
				return
			case <-tick.C:
				h.peak = max(h.peak, heapObjects())
			}
		}
	})
	return h
}

// end returns by how many bytes the heap was larger than at the start, at most.
func (h *heapPeak) end() float64 {
	close(h.stop)
	h.done.Wait()
	h.peak = max(h.peak, heapObjects())
	return float64(h.peak - min(h.peak, h.base))
}

func heapObjects() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
