package route

// AdminClient speaks to the admin listener of a running server, for the commands of services.
type AdminClient interface {
	// Do calls an operation and decodes the data of its response into out.
	Do(method, path string, in, out any) error
}
