package operator

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
)

// recordings are what was recorded, and the command lines that were put together from it.
//
//go:embed testdata
var recordings embed.FS

// CommandLine is br's recorded arguments at a step: initialize, execute, restore-volume, restore-data.
func CommandLine(step string) ([]string, error) {
	text, err := recordings.ReadFile("testdata/commands.txt")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), step+": "); ok {
			return strings.Fields(rest), nil
		}
	}
	return nil, fmt.Errorf("no command line for %s", step)
}

// Call is one call of br, as a stand-in for it wrote it down: its arguments and its environment.
type Call struct {
	Args []string
	Env  map[string]string
}

// RecordedCalls reads all of them.
func RecordedCalls() ([]Call, error) {
	text, err := recordings.ReadFile("testdata/br-calls.txt")
	if err != nil {
		return nil, err
	}
	var calls []Call
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "BR "):
			calls = append(calls, Call{Args: strings.Fields(line)[1:]})
		case strings.HasPrefix(line, "{") && len(calls) > 0:
			if err := json.Unmarshal([]byte(line), &calls[len(calls)-1].Env); err != nil {
				return nil, err
			}
		}
	}
	return calls, nil
}

// RecordedJob reads a Job that the Operator made.
func RecordedJob(name string) (*batchv1.Job, error) {
	text, err := recordings.ReadFile("testdata/" + name + ".json")
	if err != nil {
		return nil, err
	}
	job := new(batchv1.Job)
	return job, json.Unmarshal(text, job)
}

// Jobs are the names of the recorded Jobs.
func Jobs() []string {
	return []string{
		"job-backup-snap-initialize-init", "job-backup-snap-execute", "job-backup-snap1", "job-restore-rst1", "job-restore-data-rst1",
	}
}
