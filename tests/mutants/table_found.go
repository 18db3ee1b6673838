package mutants

// foundEarly is a promise of package preflight.
const foundEarly = "what would fail later is found before anything is changed"

// foundGuards are those of failures that were seen with real systems.
func foundGuards() []Mutant {
	return []Mutant{
		{
			Name: "certificate files give way to the cluster's secret", Promise: provenServer, File: "pkg/cli/tls.go",
			Old: "	if !tc.TLS || c.clientTLS() != nil {", New: "	if !tc.TLS {",
			Package: "tests", Tests: "^TestPoint10_ClientSecretCannotBeUsed_IsRefusedAndFilesWin$",
		},
		{
			Name: "a restore begins although its client certificate may not be read", Promise: foundEarly, File: "pkg/kube/tls_secrets.go",
			Old: "	if c.clientSecret && slices", New: "	if false && slices",
			Package: "tests", Tests: "^TestPoint10_ClientSecretCannotBeUsed_IsRefusedAndFilesWin$",
		},
	}
}
