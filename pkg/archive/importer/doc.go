// Package importer archives plain volumes: files, block devices and standard input. Such an archive has no backup's
// manifest, and no cluster can be restored from it.
//
// The run's lock is of the archive's name, and in the repository, as is its record below units/. A run that fails or
// dies is continued by the next one of the same name and sources: the parts of a file that are stored are not read
// again, unless the file was changed. Those of a device or of standard input are, and are not stored again where they
// are the same.
package importer
