package pd

import "time"

// LimitPages sets how long PD may take for one page of regions.
func (c *Client) LimitPages(limit time.Duration) { c.page = limit }
