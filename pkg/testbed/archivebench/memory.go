package archivebench

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// The peak of memory is read this soon, then after twice as long each time, and at last this often: more readings take the
// processors from what is measured, and fewer miss what ends soon.
const (
	firstReading = 2 * time.Millisecond
	lastReadings = 50 * time.Millisecond
)

// watchMemory reads the peak memory of a process again and again until ended is closed, and then sends it. What wait4
// reports is no use: it counts the memory of the process that started it, before its exec.
func watchMemory(pid int, ended <-chan struct{}) <-chan int64 {
	peak := make(chan int64, 1)
	go func() {
		after := firstReading
		timer := time.NewTimer(after)
		defer timer.Stop()
		most := int64(0)
		for {
			select {
			case <-ended:
				peak <- most
				return
			case <-timer.C:
				most = max(most, highWater(pid))
				after = min(2*after, lastReadings)
				timer.Reset(after)
			}
		}
	}()
	return peak
}

// highWater is the peak of a process's resident memory in bytes so far; 0 once it has ended.
func highWater(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib := int64(0)
	_, _ = fmt.Sscan(after, &kib)
	return kib << 10
}
