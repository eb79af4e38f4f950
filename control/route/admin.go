package route

// AdminClient speaks to the admin listener of a running server, for the commands of services.
type AdminClient interface {
	// Do calls an operation and decodes the data of its response into out.
	Do(method, path string, in, out any) error
	// Base is where a browser on this machine reaches that listener, such as http://127.0.0.1:9090.
	Base() (string, error)
}
