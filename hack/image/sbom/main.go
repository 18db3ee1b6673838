// Command sbom writes the software bill of materials of Go programs, in CycloneDX's JSON, from what the Go linker recorded
// in them: every linked module, with its version and checksum. The same program gives the same bytes, so it contains neither
// a time nor a serial number.
package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM... (writes PROGRAM.cdx.json)")
		os.Exit(2)
	}
	for _, program := range os.Args[1:] {
		if err := write(program); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
			os.Exit(1)
		}
	}
}

func write(program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	file, err := os.Create(program + ".cdx.json")
	if err != nil {
		return err
	}
	err = cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill(info))
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// bill lists the modules of a program, the Go toolchain's standard library among them.
func bill(info *buildinfo.BuildInfo) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	root := component(&info.Main)
	root.Type = cyclonedx.ComponentTypeApplication
	bom.Metadata = &cyclonedx.Metadata{Component: &root}
	version := info.GoVersion[len("go"):]
	components := []cyclonedx.Component{{
		BOMRef: "pkg:golang/std@" + version, Type: cyclonedx.ComponentTypeLibrary,
		Name: "std", Version: version, PackageURL: "pkg:golang/std@" + version,
	}}
	var uses []string
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, component(module))
	}
	for i := range components {
		uses = append(uses, components[i].BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: root.BOMRef, Dependencies: &uses}}
	return bom
}

func component(module *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + module.Path + "@" + module.Version
	made := cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url,
	}
	if module.Sum != "" { // from go.sum: a hash over the files' hashes, which is none of CycloneDX's algorithms
		made.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}}
	}
	return made
}
