package operator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
)

// commandLine is br's recorded arguments at a step: initialize, execute, restore-volume, restore-data.
func commandLine(step string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join("testdata", "commands.txt"))
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

// recordedCall is one call of br, as a stand-in for it wrote it down: its arguments and its environment.
type recordedCall struct {
	args []string
	env  map[string]string
}

// recordedCalls reads all of them.
func recordedCalls() ([]recordedCall, error) {
	text, err := os.ReadFile(filepath.Join("testdata", "br-calls.txt"))
	if err != nil {
		return nil, err
	}
	var calls []recordedCall
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "BR "):
			calls = append(calls, recordedCall{args: strings.Fields(line)[1:]})
		case strings.HasPrefix(line, "{") && len(calls) > 0:
			if err := json.Unmarshal([]byte(line), &calls[len(calls)-1].env); err != nil {
				return nil, err
			}
		}
	}
	return calls, nil
}

// recordedJob reads a Job that the Operator made.
func recordedJob(name string) (*batchv1.Job, error) {
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		return nil, err
	}
	job := new(batchv1.Job)
	return job, json.Unmarshal(text, job)
}
