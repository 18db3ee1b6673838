package sdkhttp

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// AssumeRole returns the credentials of a role, which are renewed before they expire. STS is asked with the
// configuration's own credentials, at the endpoint if it is not empty. An external id is sent if it is not empty.
func AssumeRole(cfg aws.Config, endpoint, role, externalID string) aws.CredentialsProvider {
	client := sts.NewFromConfig(cfg, func(o *sts.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	return aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(client, role,
		func(o *stscreds.AssumeRoleOptions) {
			if externalID != "" {
				o.ExternalID = aws.String(externalID)
			}
		}))
}
