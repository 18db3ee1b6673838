package doctor

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Status is the outcome of a check.
type Status string

// The outcomes. Unknown means that the check could not be made.
const (
	OK      Status = "ok"
	Warn    Status = "warn"
	Fail    Status = "fail"
	Unknown Status = "unknown"
)

// Check is one check with its outcome.
type Check struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Status  Status `json:"status"`
	Found   string `json:"found"`
	Fix     string `json:"fix,omitempty"` // what to do, unless it is ok
}

func (c Check) as(s Status, fix, format string, args ...any) []Check {
	c.Status, c.Found, c.Fix = s, fmt.Sprintf(format, args...), fix
	return []Check{c}
}

func (c Check) ok(format string, args ...any) []Check { return c.as(OK, "", format, args...) }

// failed is a check that did not pass.
func (c Check) failed(err error) []Check { return c.as(Fail, failure.HintOf(err), "%v", err) }

// notMade is a check that could not be made.
func (c Check) notMade(err error) []Check {
	return c.as(Unknown, failure.HintOf(err), "could not be checked: %v", err)
}

// outcomeOf is the outcome of a check that ended with an error: it failed, unless asking again may give another answer.
func (c Check) outcomeOf(err error) []Check {
	if failure.Transient(err) {
		return c.notMade(err)
	}
	return c.failed(err)
}
