// A module of its own: what writes the bill of materials is no part of what it lists.
module github.com/tisnap/tisnap/hack/image/sbom

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
