package ebstest

import (
	"encoding/xml"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// sharesInCall is how many accounts one ModifySnapshotAttribute takes.
const sharesInCall = 500

// readableBy reports whether an account may read the snapshot: describe it, copy it, make volumes of it.
func (p *snapshot) readableBy(account string) bool {
	return p.owner.cfg.Account == account || p.sharedWith[account]
}

// foundIn is a snapshot that this account may read in a region, or EC2's error: one of others that is not shared does
// not exist.
func (s *Server) foundIn(region string, id cluster.SnapshotID) (*snapshot, error) {
	if err := wellFormed("snap", string(id)); err != nil {
		return nil, err
	}
	for _, other := range s.world.servers {
		p, ok := other.snapshots[id]
		if ok && other.cfg.Region == region && p.visible(s.now()) && p.readableBy(s.cfg.Account) {
			return p, nil
		}
	}
	return nil, refusal("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
}

// sourceOf is a snapshot of a region that can be read now.
func (s *Server) sourceOf(region string, id cluster.SnapshotID) (*snapshot, error) {
	p, err := s.foundIn(region, id)
	if err != nil {
		return nil, err
	}
	if state := p.state(s.now()); state != ebs.SnapshotCompleted {
		return nil, refusal("IncorrectState", "Snapshot is in invalid state - %s", state)
	}
	return p, s.usable(p)
}

// modifySnapshotAttribute shares a snapshot with other accounts, or ends that.
func (s *Server) modifySnapshotAttribute(req request) (any, error) {
	p, err := s.shownSnapshot(cluster.SnapshotID(req.text("SnapshotId")))
	if err != nil {
		return nil, err
	}
	add, remove := req.accounts("CreateVolumePermission.Add"), req.accounts("CreateVolumePermission.Remove")
	switch req.text("OperationType") {
	case "add":
		add = append(add, req.list("UserId")...)
	case "remove":
		remove = append(remove, req.list("UserId")...)
	}
	all := slices.Concat(add, remove)
	switch {
	case req.has("Attribute") && req.text("Attribute") != "createVolumePermission":
		return nil, refusal("InvalidParameterValue", "Value (%s) for parameter attribute is invalid.", req.text("Attribute"))
	case len(all) == 0:
		return nil, refusal("MissingParameter", "The request must contain the parameter createVolumePermission")
	case len(add) > 0 && len(remove) > 0:
		return nil, refusal("InvalidParameterCombination", "Accounts cannot be added and removed in one request.")
	case len(all) > sharesInCall:
		return nil, refusal("InvalidParameterValue", "More than %d modifications in one request.", sharesInCall)
	case len(add) > 0 && p.encrypted && (p.kmsKey == s.ownKey() || p.kmsKey == defaultAlias):
		return nil, refusal("OperationNotPermitted", "Encrypted snapshots with EBS default key cannot be shared")
	}
	if err := s.usable(p); err != nil && len(add) > 0 {
		return nil, err
	}
	for _, account := range all {
		if len(account) != 12 {
			return nil, refusal("InvalidUserID.Malformed", "Invalid user id: %q", account)
		}
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	for _, account := range add {
		p.sharedWith[account] = true
	}
	for _, account := range remove {
		delete(p.sharedWith, account)
	}
	return simpleAnswer("ModifySnapshotAttribute"), nil
}

// accounts reads Key.1.UserId, Key.2.UserId, …
func (r request) accounts(key string) []string {
	var out []string
	for i := 1; r.has(fmt.Sprintf("%s.%d.UserId", key, i)); i++ {
		out = append(out, r.text(fmt.Sprintf("%s.%d.UserId", key, i)))
	}
	return out
}

type (
	permissionXML struct {
		Account string `xml:"userId"`
	}
	snapshotAttributeAnswer struct {
		XMLName xml.Name        `xml:"DescribeSnapshotAttributeResponse"`
		ID      string          `xml:"snapshotId"`
		Allowed []permissionXML `xml:"createVolumePermission>item"`
	}
)

func (s *Server) describeSnapshotAttribute(req request) (any, error) {
	p, err := s.shownSnapshot(cluster.SnapshotID(req.text("SnapshotId")))
	if err != nil {
		return nil, err
	}
	if attribute := req.text("Attribute"); attribute != "createVolumePermission" {
		return nil, refusal("InvalidParameterValue", "Value (%s) for parameter attribute is invalid.", attribute)
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	return snapshotAttributeAnswer{ID: string(p.id), Allowed: sharedXML(p)}, nil
}

func sharedXML(p *snapshot) []permissionXML {
	var out []permissionXML
	for _, account := range p.accounts() {
		out = append(out, permissionXML{account})
	}
	return out
}

// accounts lists, sorted, those that the snapshot is shared with.
func (p *snapshot) accounts() []string {
	var out []string
	for account := range p.sharedWith {
		out = append(out, account)
	}
	slices.Sort(out)
	return out
}

// SharedWith lists the accounts that a snapshot is shared with.
func (s *Server) SharedWith(id cluster.SnapshotID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.snapshots[id]
	if !ok || p.deleted {
		return nil
	}
	return p.accounts()
}
