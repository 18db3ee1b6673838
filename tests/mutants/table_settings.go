package mutants

// settingsGuards are about what a user sets: in flags, in the environment, in manifests.
func settingsGuards() []Mutant {
	return []Mutant{
		in("pkg/cli/env.go", "a misspelled variable is ignored", askedIsDone,
			"	if err := checkEnv(cmd.Root(), os.Environ()); err != nil {", "	if err := error(nil); err != nil {",
			"TestRun_MisspeltVariable_IsRefused"),
		in("pkg/cli/env.go", "a variable that Kubernetes sets for a Service is refused", askedIsDone,
			" || injected.MatchString(name) {", " {",
			"TestCheckEnv_TakesWhatIsLegitimate"),
	}
}
