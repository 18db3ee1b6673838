// Package awsenv ends the AWS SDK's search for credentials at ones that only stand-ins take, whatever the machine has.
package awsenv

import (
	"maps"
	"os"
	"slices"
)

// vars are what the SDK reads first, and where it would look next.
func vars() map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID": "testbed", "AWS_SECRET_ACCESS_KEY": "testbed", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	}
}

// List is the variables as NAME=VALUE, for the environment of another process.
func List() []string {
	var out []string
	for name, value := range vars() {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// Isolate sets the variables in this process, and unsets those that name a region, a profile or an endpoint: these
// are flags of what is tested.
func Isolate() error {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL"} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	set := vars()
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := os.Setenv(name, set[name]); err != nil {
			return err
		}
	}
	return nil
}

// MustIsolate is Isolate for TestMain.
func MustIsolate() {
	if err := Isolate(); err != nil {
		panic(err)
	}
}
