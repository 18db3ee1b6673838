package ebs

import "time"

// How often a wait polls: soon at first, as an incremental snapshot may take seconds, and rarely later.
const (
	firstPoll = 500 * time.Millisecond
	lastPoll  = 15 * time.Second
)

// NextPoll is how long to wait before the next poll of what EC2 works on, after a wait of last; 0 is for the
// first. It grows by half each time, to 15 s: then a wait of hours costs 4 calls a minute for each 200 ids.
func NextPoll(last time.Duration) time.Duration {
	if last <= 0 {
		return firstPoll
	}
	return min(last*3/2, lastPoll)
}
