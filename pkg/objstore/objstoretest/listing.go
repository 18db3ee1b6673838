package objstoretest

import (
	"encoding/base64"
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

type listed struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
	StorageClass string
}

type commonPrefix struct{ Prefix string }

// listing is the answer to ListObjects and ListObjectsV2; each client reads the members of its version.
type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	Delimiter             string `xml:",omitempty"`
	MaxKeys               int
	KeyCount              int
	IsTruncated           bool
	EncodingType          string `xml:",omitempty"`
	Marker                string `xml:",omitempty"`
	NextMarker            string `xml:",omitempty"`
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	StartAfter            string `xml:",omitempty"`
	Contents              []listed
	CommonPrefixes        []commonPrefix
}

func (s *Server) listObjects(c *call) (func(http.ResponseWriter), *s3Error) {
	query := c.r.URL.Query()
	l := &listing{
		Name: c.bucket, Prefix: query.Get("prefix"), Delimiter: query.Get("delimiter"), MaxKeys: s.config.Page,
		EncodingType: query.Get("encoding-type"), Marker: query.Get("marker"),
		ContinuationToken: query.Get("continuation-token"), StartAfter: query.Get("start-after"),
	}
	if asked := query.Get("max-keys"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 0 {
			return nil, &s3Error{code: "InvalidArgument", message: "max-keys"}
		}
		l.MaxKeys = min(n, s.config.Page)
	}
	after := max(l.StartAfter, l.Marker)
	if l.ContinuationToken != "" {
		token, err := base64.StdEncoding.DecodeString(l.ContinuationToken)
		if err != nil {
			return nil, &s3Error{code: "InvalidArgument", message: "The continuation token provided is incorrect"}
		}
		after = string(token)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, failed := s.bucket(c)
	if failed != nil {
		return nil, failed
	}
	l.fill(bucket, after)
	if l.EncodingType == "url" {
		l.encode()
	}
	return writeXML(l), nil
}

// fill lists what comes after a key, or after a common prefix, up to a page.
func (l *listing) fill(bucket map[string]stored, after string) {
	last := ""
	for _, key := range slices.Sorted(maps.Keys(bucket)) {
		rest, inPrefix := strings.CutPrefix(key, l.Prefix)
		folded := ""
		if l.Delimiter != "" {
			if i := strings.Index(rest, l.Delimiter); i >= 0 {
				folded = l.Prefix + rest[:i+len(l.Delimiter)]
			}
		}
		item := key
		if folded != "" {
			item = folded
		}
		if !inPrefix || item <= after || (folded != "" && folded == last) {
			continue
		}
		if l.KeyCount == l.MaxKeys {
			l.IsTruncated = true
			l.NextMarker = last
			l.NextContinuationToken = base64.StdEncoding.EncodeToString([]byte(last))
			return
		}
		l.KeyCount++
		last = item
		if folded != "" {
			l.CommonPrefixes = append(l.CommonPrefixes, commonPrefix{folded})
			continue
		}
		o := bucket[key]
		l.Contents = append(l.Contents, listed{
			Key: key, LastModified: o.modified.Format("2006-01-02T15:04:05.000Z"), ETag: `"` + o.etag + `"`,
			Size: len(o.body), StorageClass: "STANDARD",
		})
	}
}

func (l *listing) encode() {
	for i := range l.Contents {
		l.Contents[i].Key = escapeKey(l.Contents[i].Key)
	}
	for i := range l.CommonPrefixes {
		l.CommonPrefixes[i].Prefix = escapeKey(l.CommonPrefixes[i].Prefix)
	}
	l.Prefix, l.Delimiter = escapeKey(l.Prefix), escapeKey(l.Delimiter)
	l.Marker, l.NextMarker, l.StartAfter = escapeKey(l.Marker), escapeKey(l.NextMarker), escapeKey(l.StartAfter)
}

// escapeKey leaves '/' as it is, as S3 does.
func escapeKey(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "%2F", "/") }
