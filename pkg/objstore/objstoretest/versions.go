package objstoretest

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// unversioned is the id of what a bucket without versions has.
const unversioned = "null"

// versioned reports whether a bucket keeps what is replaced or deleted. The caller holds s.mu.
func (s *Server) versioned(bucket string) bool {
	return strings.Contains(string(s.settings[bucket+" GetBucketVersioning"]), ">Enabled<")
}

// add makes an object the newest version of its key. The caller holds s.mu.
func (s *Server) add(bucket, key string, o *stored) {
	o.id = s.behindNewest(bucket, key)
	s.buckets[bucket][key] = *o
}

// remove deletes an object, or puts a marker before its versions. The caller holds s.mu.
func (s *Server) remove(bucket, key string) {
	id := s.behindNewest(bucket, key)
	delete(s.buckets[bucket], key)
	if s.versioned(bucket) || len(s.behind[bucket][key]) > 0 {
		marker := stored{object: object{modified: time.Now().UTC()}, id: id, marker: true}
		s.behind[bucket][key] = append(s.behind[bucket][key], marker)
	}
}

// behindNewest puts what reads see of a key behind a version that is about to come, whose id it returns.
func (s *Server) behindNewest(bucket, key string) string {
	on := s.versioned(bucket)
	if was, is := s.buckets[bucket][key]; is && (on || was.id != unversioned) {
		s.behind[bucket][key] = append(s.behind[bucket][key], was)
	}
	if !on {
		return unversioned
	}
	s.versions++
	return fmt.Sprintf("v%08d", s.versions)
}

// version finds the object, or the version of it, that a call asks for. The caller holds s.mu.
func (s *Server) version(c *call) (*stored, *s3Error) {
	bucket, failed := s.bucket(c)
	if failed != nil {
		return nil, failed
	}
	id := c.r.URL.Query().Get("versionId")
	if o, is := bucket[c.key]; is && (id == "" || id == o.id) {
		return &o, nil
	}
	if id == "" {
		return nil, &s3Error{code: "NoSuchKey", message: "The specified key does not exist."}
	}
	for _, o := range s.behind[c.bucket][c.key] {
		switch {
		case o.id != id:
		case o.marker:
			return nil, &s3Error{code: "MethodNotAllowed", message: "The specified method is not allowed against this resource."}
		default:
			return &o, nil
		}
	}
	return nil, &s3Error{code: "NoSuchVersion", message: "The specified version does not exist."}
}

// set changes a version in place. The caller holds s.mu.
func (s *Server) set(c *call, o *stored) {
	if s.buckets[c.bucket][c.key].id == o.id {
		s.buckets[c.bucket][c.key] = *o
		return
	}
	older := s.behind[c.bucket][c.key]
	older[slices.IndexFunc(older, func(b stored) bool { return b.id == o.id })] = *o
}

// deleteVersion deletes one version for ever, unless it is retained: no client here may bypass governance. The caller
// holds s.mu.
func (s *Server) deleteVersion(c *call) (func(http.ResponseWriter), *s3Error) {
	id, older := c.r.URL.Query().Get("versionId"), s.behind[c.bucket][c.key]
	all := older
	if newest, is := s.buckets[c.bucket][c.key]; is {
		all = append(slices.Clone(older), newest)
	}
	at := slices.IndexFunc(all, func(o stored) bool { return o.id == id })
	if at < 0 {
		return writeStatus(http.StatusNoContent), nil
	}
	if all[at].retention.RetainUntilDate.After(time.Now().Add(s.skew)) {
		return nil, &s3Error{code: "AccessDenied", message: "Access Denied because object protected by object lock."}
	}
	s.mutating = append(s.mutating, "DeleteObjectVersion "+c.bucket+"/"+c.key)
	all = slices.Delete(slices.Clone(all), at, at+1)
	delete(s.buckets[c.bucket], c.key)
	delete(s.behind[c.bucket], c.key)
	if n := len(all); n > 0 && !all[n-1].marker {
		s.buckets[c.bucket][c.key], all = all[n-1], all[:n-1]
	}
	if len(all) > 0 {
		s.behind[c.bucket][c.key] = all
	}
	return writeStatus(http.StatusNoContent), nil
}

// listedVersion is an object or a delete marker in a listing of versions.
type listedVersion struct {
	XMLName      xml.Name
	Key          string
	VersionID    string `xml:"VersionId"`
	IsLatest     bool
	LastModified string
	ETag         string `xml:",omitempty"`
	Size         *int   `xml:",omitempty"`
}

type versionListing struct {
	XMLName             xml.Name `xml:"ListVersionsResult"`
	Name                string
	Prefix              string
	MaxKeys             int
	IsTruncated         bool
	EncodingType        string `xml:",omitempty"`
	KeyMarker           string
	VersionIDMarker     string `xml:"VersionIdMarker"`
	NextKeyMarker       string `xml:",omitempty"`
	NextVersionIDMarker string `xml:"NextVersionIdMarker,omitempty"`
	Versions            []listedVersion
}

func (s *Server) listVersions(c *call) (func(http.ResponseWriter), *s3Error) {
	query := c.r.URL.Query()
	l := versionListing{
		Name: c.bucket, Prefix: query.Get("prefix"), MaxKeys: s.config.Page, EncodingType: query.Get("encoding-type"),
		KeyMarker: query.Get("key-marker"), VersionIDMarker: query.Get("version-id-marker"),
	}
	if n, err := strconv.Atoi(query.Get("max-keys")); err == nil {
		l.MaxKeys = min(n, s.config.Page)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, failed := s.bucket(c); failed != nil {
		return nil, failed
	}
	all := s.allVersions(c.bucket, l.Prefix)
	all = slices.DeleteFunc(all, func(v listedVersion) bool {
		return v.Key < l.KeyMarker || v.Key == l.KeyMarker && l.VersionIDMarker == ""
	})
	if at := slices.IndexFunc(all, func(v listedVersion) bool {
		return v.Key == l.KeyMarker && v.VersionID == l.VersionIDMarker
	}); at >= 0 {
		all = all[at+1:]
	}
	if l.IsTruncated = len(all) > l.MaxKeys; l.IsTruncated {
		all = all[:l.MaxKeys]
		last := all[len(all)-1]
		l.NextKeyMarker, l.NextVersionIDMarker = last.Key, last.VersionID
	}
	l.Versions = all
	if l.EncodingType == "url" {
		for i := range l.Versions {
			l.Versions[i].Key = escapeKey(l.Versions[i].Key)
		}
		l.Prefix, l.KeyMarker, l.NextKeyMarker = escapeKey(l.Prefix), escapeKey(l.KeyMarker), escapeKey(l.NextKeyMarker)
	}
	return writeXML(l), nil
}

// allVersions are those of a bucket's keys in order, the newest of each first. The caller holds s.mu.
func (s *Server) allVersions(bucket, prefix string) (out []listedVersion) {
	keys := map[string]bool{}
	for key := range s.buckets[bucket] {
		keys[key] = strings.HasPrefix(key, prefix)
	}
	for key := range s.behind[bucket] {
		keys[key] = strings.HasPrefix(key, prefix)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !keys[key] {
			continue
		}
		all := slices.Clone(s.behind[bucket][key])
		if newest, is := s.buckets[bucket][key]; is {
			all = append(all, newest)
		}
		for i, o := range slices.Backward(all) {
			v := listedVersion{
				XMLName: xml.Name{Local: "Version"}, Key: key, VersionID: o.id, IsLatest: i == len(all)-1,
				LastModified: o.modified.Format("2006-01-02T15:04:05.000Z"),
			}
			if size := len(o.body); o.marker {
				v.XMLName.Local = "DeleteMarker"
			} else {
				v.ETag, v.Size = `"`+o.etag+`"`, &size
			}
			out = append(out, v)
		}
	}
	return out
}
