package ebstest

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// AddRole makes a role of the account that anyone who has the external id, if it is not empty, may assume. Its
// credentials act in its account.
func (s *Server) AddRole(name, externalID string) (arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	arn = "arn:aws:iam::" + s.cfg.Account + ":role/" + name
	s.world.roles[arn] = externalID
	return arn
}

// roleKey is how the access key ids of assumed roles begin: the account follows.
const roleKey = "ASIA"

// assumeRole refuses an unknown role with the words for one that does not trust the caller, as STS does.
func (s *Server) assumeRole(req request) (any, error) {
	arn := req.text("RoleArn")
	externalID, known := s.world.roles[arn]
	if !known || externalID != "" && externalID != req.text("ExternalId") {
		return nil, refusal("AccessDenied",
			"User: arn:aws:iam::%s:user/test is not authorized to perform: sts:AssumeRole on resource: %s", s.cfg.Account, arn)
	}
	account := strings.Split(arn, ":")[4]
	return roleAnswer{
		Key: roleKey + account, Secret: "secret", Token: "token", Expires: time.Now().Add(time.Hour).UTC(),
		ARN: "arn:aws:sts::" + account + ":assumed-role/" + arn[strings.LastIndexByte(arn, '/')+1:] + "/session",
	}, nil
}

// credential matches, in a signature of version 4, the account of an assumed role, if one signed, and the region.
var credential = regexp.MustCompile(`Credential=(?:` + roleKey + `([0-9]{12})|[^/]+)/[0-9]+/([^/]+)/`)

// ServeHTTP answers as the account whose role signed the request, or else the first server's, in the region that it is
// signed for.
func (w *World) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	to, account := w.servers[0], w.servers[0].cfg.Account
	if signed := credential.FindStringSubmatch(r.Header.Get("Authorization")); signed != nil {
		account = cmp.Or(signed[1], account)
		if at := w.at(account, signed[2]); at != nil {
			to = at
		} else if account != to.cfg.Account {
			refuse(out, refusal("UnauthorizedOperation", "account %s has nothing in %s", account, signed[2]))
			return
		}
	}
	to.ServeHTTP(out, r)
}
