package volume

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// stateOf is equal of two times at which a file was not changed. Of a device it is how much was written and discarded;
// nothing if the kernel does not count that.
func stateOf(info fs.FileInfo) string {
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	}
	if info.Mode().IsRegular() {
		return fmt.Sprint(is.Dev, is.Ino, is.Size, is.Mtim, is.Ctim)
	}
	major, minor := is.Rdev>>8&0xfff|is.Rdev>>32&^0xfff, is.Rdev&0xff|is.Rdev>>12&^0xff
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor&0xffffffff))
	counts := strings.Fields(string(text))
	if err != nil || len(counts) < 7 {
		return ""
	}
	written := counts[4] + " " + counts[6] // requests, sectors
	if len(counts) >= 14 {
		written += " " + counts[11] + " " + counts[13] // of discards
	}
	return written
}
