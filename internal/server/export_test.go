package server

// Timeouts, so that tests can shorten them.
var (
	ReadHeaderTimeout = &readHeaderTimeout
	ReadTimeout       = &readTimeout
	WriteTimeout      = &writeTimeout
	IdleTimeout       = &idleTimeout
	ShutdownTimeout   = &shutdownTimeout
)
