package brcompat

// AtEC2 are the streams of a run that finds EC2 at an endpoint.
func (s Streams) AtEC2(endpoint string) Streams {
	s.aws = endpoint
	return s
}
