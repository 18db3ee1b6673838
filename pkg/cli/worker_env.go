package cli

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/failure"
)

// workerEnv is what the user adds to the environment of pods of Jobs. It is the value of --worker-env, in lines of
// NAME=VALUE.
type workerEnv map[string]string

const workerEnvFlag = "worker-env"

var variable = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// secretName matches variables whose value whoever may read Jobs or pods must not see.
var secretName = regexp.MustCompile(`(?i)(SECRET|PASSWORD|PASSPHRASE|TOKEN|HEADERS)`)

// setByJobs are variables that the pods have already, or that would have them all take themselves for one.
var setByJobs = []string{
	"CLAIM_UIDS", "HOSTNAME", indexEnv, "TISNAP_GRACE_PERIOD", "TISNAP_INDEX", "TISNAP_NAME", "TISNAP_PROGRESS",
}

// addWorkerEnv adds the flag. where begins its description.
func addWorkerEnv(fl *pflag.FlagSet, e *workerEnv, where string) {
	fl.Var(e, workerEnvFlag, where+
		"variable in the pods' environment, as HTTPS_PROXY=http://proxy:3128, and no secret (repeatable)")
}

// Type implements pflag.Value.
func (*workerEnv) Type() string { return "NAME=VALUE" }

// String implements pflag.Value.
func (e *workerEnv) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(*e)) {
		lines = append(lines, name+"="+(*e)[name])
	}
	return strings.Join(lines, "\n")
}

// Set implements pflag.Value: it adds the lines.
func (e *workerEnv) Set(text string) error {
	for line := range strings.Lines(text) {
		name, value, is := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch before, twice := (*e)[name]; {
		case !is:
			return fmt.Errorf("%q is not NAME=VALUE", line)
		case !variable.MatchString(name):
			return fmt.Errorf("%q is no name of a variable", name)
		case slices.Contains(setByJobs, name):
			return fmt.Errorf("%s is set by tisnap or Kubernetes", name)
		case twice && before != value:
			return fmt.Errorf("%s has two values", name)
		case isSecret(name, value):
			return failure.New(failure.Usage, "", "", "%s may be a secret, and whoever reads the Job sees it", name).
				WithHint("give --worker-service-account a role, or have the repository's key in --worker-secret")
		}
		if *e == nil {
			*e = workerEnv{}
		}
		(*e)[name] = value
	}
	return nil
}

// isSecret reports whether a variable may hold a secret. The path of a file with one is none.
func isSecret(name, value string) bool {
	if u, err := url.Parse(value); err == nil && u.User != nil {
		if _, password := u.User.Password(); password {
			return true
		}
	}
	return secretName.MatchString(name) && !strings.HasSuffix(strings.ToUpper(name), "_FILE")
}
