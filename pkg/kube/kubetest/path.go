package kubetest

// Path is the path of an object's URL; namespace is "" for one of the whole cluster. The resource is one that is served.
func Path(resource, namespace, name string) string {
	r := resourceNamed(resource)
	path := "/apis/" + r.apiVersion()
	if r.group == "" {
		path = "/api/" + r.version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.name + "/" + name
}
