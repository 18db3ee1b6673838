package ebstest

import (
	"fmt"
	"path"
	"slices"
	"strconv"
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

// Statement allows actions, written as in an IAM policy ("ec2:CreateVolume", "ec2:Describe*"), where all conditions hold
// for each resource that a call names. Of the operators there are Null and StringEquals, of the keys aws:ResourceTag/KEY,
// aws:RequestTag/KEY and ec2:CreateAction; any other condition never holds. Resources are not compared.
type Statement struct {
	Action    []string
	Condition map[string]map[string]any
}

// AllowOnly takes away every permission but these actions. No arguments take all away. GetCallerIdentity needs no
// permission.
func (s *Server) AllowOnly(actions ...string) {
	s.AllowStatements(Statement{Action: actions})
}

// AllowStatements takes away every permission but these.
func (s *Server) AllowStatements(statements ...Statement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permitted = append([]Statement{}, statements...)
}

// missing is the first permission that a call needs and does not have, or "". A call that makes something
// with tags needs ec2:CreateTags too, for what it makes.
func (s *Server) missing(act action, req request) string {
	called := act.service() + ":" + act.name
	for _, tags := range s.tagsNamed(req) {
		if s.forbids(called, about{resource: tags, req: req}) {
			return called
		}
	}
	if act.mutating && req.has("TagSpecification.1.Tag.1.Key") &&
		s.forbids("ec2:CreateTags", about{req: req, creating: act.name}) {
		return "ec2:CreateTags"
	}
	return ""
}

// about is what conditions ask for.
type about struct {
	resource map[string]string // its tags
	req      request
	creating string // the action that makes the resource
}

// tagsNamed are the tags of each snapshot and volume that a call names, and none for a call that names none.
func (s *Server) tagsNamed(req request) (out []map[string]string) {
	ids := append([]string{req.text("SnapshotId"), req.text("VolumeId")}, req.list("ResourceId")...)
	for _, id := range append(ids, req.list("SnapshotId")...) {
		if tags, err := s.tagsOf(id); err == nil {
			out = append(out, tags)
		}
	}
	if out == nil {
		out = []map[string]string{nil}
	}
	return out
}

func (s *Server) forbids(permission string, a about) bool {
	if _, name, _ := strings.Cut(permission, ":"); s.denied[name] {
		return true
	}
	return s.permitted != nil && !slices.ContainsFunc(s.permitted, func(st Statement) bool {
		return a.meets(st.Condition) && slices.ContainsFunc(st.Action, func(pattern string) bool {
			ok, err := path.Match(pattern, permission)
			return ok && err == nil
		})
	})
}

// meets reports whether all conditions hold.
func (a about) meets(conditions map[string]map[string]any) bool {
	for operator, keys := range conditions {
		for key, want := range keys {
			value, there := a.value(key)
			switch operator {
			case "Null":
				if fmt.Sprint(want) != strconv.FormatBool(!there) {
					return false
				}
			case "StringEquals":
				if !there || !slices.Contains(strings.Fields(strings.Trim(fmt.Sprint(want), "[]")), value) {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}

func (a about) value(key string) (value string, there bool) {
	name, tag, _ := strings.Cut(key, "/")
	switch name {
	case "aws:ResourceTag":
		value, there = a.resource[tag]
	case "aws:RequestTag":
		tags, _ := a.req.pairs("TagSpecification.1.Tag") // what is wrong is refused later
		value, there = tags[tag]
	case "ec2:CreateAction":
		value, there = a.creating, a.creating != ""
	}
	return value, there
}
