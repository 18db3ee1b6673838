package archivebench

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// watchMemory reads the peak memory of a process twenty times a second until ended is closed, and then sends it: reading
// it more often takes the processors from what is measured. What wait4 reports is no use: it counts the memory of the
// process that started it, before its exec.
func watchMemory(pid int, ended <-chan struct{}) <-chan int64 {
	peak := make(chan int64, 1)
	go func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		most := int64(0)
		for {
			select {
			case <-ended:
				peak <- most
				return
			case <-ticker.C:
				most = max(most, highWater(pid))
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
