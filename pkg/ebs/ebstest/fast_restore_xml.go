package ebstest

import "encoding/xml"

type fastRestoreXML struct {
	Snapshot   string `xml:"snapshotId"`
	Zone       string `xml:"availabilityZone"`
	ZoneID     string `xml:"availabilityZoneId"`
	State      string `xml:"state"`
	Reason     string `xml:"stateTransitionReason"`
	Owner      string `xml:"ownerId"`
	Enabling   string `xml:"enablingTime,omitempty"`
	Optimizing string `xml:"optimizingTime,omitempty"`
	Enabled    string `xml:"enabledTime,omitempty"`
	Disabling  string `xml:"disablingTime,omitempty"`
	Disabled   string `xml:"disabledTime,omitempty"`
}

type fastRestoreZoneErrorXML struct {
	Zone    string `xml:"availabilityZone"`
	Code    string `xml:"error>code"`
	Message string `xml:"error>message"`
}

type fastRestoreErrorXML struct {
	Snapshot string                    `xml:"snapshotId"`
	Errors   []fastRestoreZoneErrorXML `xml:"fastSnapshotRestoreStateErrorSet>item"`
}

type (
	fastRestoresAnswer struct {
		XMLName xml.Name
		Done    []fastRestoreXML      `xml:"successful>item"`
		Refused []fastRestoreErrorXML `xml:"unsuccessful>item"`
	}
	describeFastRestoresAnswer struct {
		XMLName   xml.Name         `xml:"DescribeFastSnapshotRestoresResponse"`
		Pairs     []fastRestoreXML `xml:"fastSnapshotRestoreSet>item"`
		NextToken string           `xml:"nextToken,omitempty"`
	}
)
