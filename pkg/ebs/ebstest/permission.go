package ebstest

import (
	"path"
	"slices"
	"strings"
)

// Deny makes an action ("CreateVolume") answer UnauthorizedOperation from now on, dry runs included.
func (s *Server) Deny(action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[action] = true
}

// Allow undoes Deny.
func (s *Server) Allow(action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.denied, action)
}

// AllowOnly takes away every permission but these, written as in an IAM policy: "ec2:CreateVolume",
// "ec2:Describe*". No arguments take all away. GetCallerIdentity needs no permission.
func (s *Server) AllowOnly(actions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permitted = append([]string{}, actions...)
}

// missing is the first permission that a call needs and does not have, or "". A call that makes something
// with tags needs ec2:CreateTags too.
func (s *Server) missing(act action, req request) string {
	needed := []string{act.service() + ":" + act.name}
	if act.mutating && req.has("TagSpecification.1.Tag.1.Key") {
		needed = append(needed, "ec2:CreateTags")
	}
	for _, permission := range needed {
		if s.forbids(permission) {
			return permission
		}
	}
	return ""
}

func (s *Server) forbids(permission string) bool {
	if _, name, _ := strings.Cut(permission, ":"); s.denied[name] {
		return true
	}
	return s.permitted != nil && !slices.ContainsFunc(s.permitted, func(pattern string) bool {
		ok, err := path.Match(pattern, permission)
		return ok && err == nil
	})
}
