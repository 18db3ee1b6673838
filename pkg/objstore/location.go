package objstore

import (
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
)

// Location is where a store is, the same whatever way leads there: the bucket and the prefix, without endpoint and
// region, or the folder with its symbolic links followed.
func Location(s Store) string {
	u, err := url.Parse(s.URL())
	if err != nil || u.Scheme != "file" {
		return s.URL()
	}
	u.Path = realPath(u.Path)
	return u.String()
}

// realPath follows the links of the part of a path that exists: the folder of a store is made by the first write.
func realPath(path string) string {
	found, err := filepath.EvalSymlinks(path)
	if err == nil {
		return found
	}
	parent := filepath.Dir(path)
	if !errors.Is(err, fs.ErrNotExist) || parent == path {
		return filepath.Clean(path)
	}
	return filepath.Join(realPath(parent), filepath.Base(path))
}

// Server is the server that keeps the store: the endpoint of an S3, "Amazon S3", or the location of a store that has
// none.
func Server(s Store) string {
	if at, ok := s.(interface{ server() string }); ok {
		return at.server()
	}
	return Location(s)
}

func (a askFirst) server() string { return Server(a.Store) }

func (s *s3Store) server() string {
	if endpoint := s.client.Options().BaseEndpoint; endpoint != nil {
		return *endpoint
	}
	return "Amazon S3"
}
